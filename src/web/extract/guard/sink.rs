//! Builds the tree, and counts while it grows. Owns the limits that hold during the parse: they bound what the parser
//! itself may cost, which grows with the depth, the number of elements and what it repeats.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    collections::HashMap,
};

use dom_query::{Document as Dom, NodeId, TreeNode};
use html5ever::{
    Attribute, QualName,
    tendril::StrTendril,
    tree_builder::{ElementFlags, NodeOrText, QuirksMode, TreeSink},
};

use super::{MAX_ATTRIBUTE_BYTES, MAX_ATTRIBUTES, MAX_DEPTH, MAX_ELEMENTS, MAX_NODES};

/// A document that counts.
#[derive(Default)]
pub(super) struct Sink {
    dom: Dom,
    elements: Cell<usize>,
    attribute_bytes: Cell<usize>,
    /// The element that each template's content, which has no parent, belongs to.
    templates: RefCell<HashMap<NodeId, NodeId>>,
    stopped: Cell<bool>,
}

impl Sink {
    pub(super) fn stop(&self) {
        self.stopped.set(true);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    fn count_attributes(&self, attributes: &[Attribute]) {
        let bytes: usize = attributes.iter().map(|a| a.name.local.len() + a.value.len()).sum();
        // An attribute takes memory even if it is empty.
        let bytes = self.attribute_bytes.get() + bytes + 8 * attributes.len();
        self.attribute_bytes.set(bytes);
        if bytes > MAX_ATTRIBUTE_BYTES {
            self.stop();
        }
    }

    /// Before something is put into `parent`.
    fn admit(&self, parent: NodeId, child: &NodeOrText<NodeId>) {
        if self.dom.tree.len() > MAX_NODES {
            self.stop();
        }
        // Text comes in any number of pieces, into an element that was counted itself.
        if matches!(child, NodeOrText::AppendText(_)) {
            return;
        }
        let mut above = Some(parent);
        let mut depth = 0;
        while let Some(node) = above {
            depth += 1;
            if depth > MAX_DEPTH {
                return self.stop();
            }
            let parent = self.dom.tree.parent_of(&node).map(|parent| parent.id);
            above = parent.or_else(|| self.templates.borrow().get(&node).copied());
        }
    }
}

impl TreeSink for Sink {
    type Handle = NodeId;
    type Output = Dom;
    type ElemName<'a> = <Dom as TreeSink>::ElemName<'a>;

    fn finish(self) -> Dom {
        self.dom
    }

    /// Not kept: there may be one for each byte.
    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> NodeId {
        self.dom.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a NodeId) -> Self::ElemName<'a> {
        self.dom.elem_name(target)
    }

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, flags: ElementFlags) -> NodeId {
        self.count_attributes(&attrs);
        self.elements.set(self.elements.get() + 1);
        if self.elements.get() > MAX_ELEMENTS {
            self.stop();
        }
        let template = flags.template;
        let element = self.dom.create_element(name, attrs, flags);
        if template {
            self.templates.borrow_mut().insert(self.dom.get_template_contents(&element), element);
        }
        element
    }

    fn create_comment(&self, text: StrTendril) -> NodeId {
        self.dom.create_comment(text)
    }

    fn create_pi(&self, target: StrTendril, data: StrTendril) -> NodeId {
        self.dom.create_pi(target, data)
    }

    fn append(&self, parent: &NodeId, child: NodeOrText<NodeId>) {
        self.admit(*parent, &child);
        self.dom.append(parent, child);
    }

    fn append_before_sibling(&self, sibling: &NodeId, child: NodeOrText<NodeId>) {
        if let Some(parent) = self.dom.tree.parent_of(sibling) {
            self.admit(parent.id, &child);
        }
        self.dom.append_before_sibling(sibling, child);
    }

    fn append_based_on_parent_node(&self, element: &NodeId, previous: &NodeId, child: NodeOrText<NodeId>) {
        if self.dom.tree.parent_of(element).is_some() {
            self.append_before_sibling(element, child);
        } else {
            self.append(previous, child);
        }
    }

    fn append_doctype_to_document(&self, name: StrTendril, public: StrTendril, system: StrTendril) {
        self.dom.append_doctype_to_document(name, public, system);
    }

    fn get_template_contents(&self, target: &NodeId) -> NodeId {
        self.dom.get_template_contents(target)
    }

    fn same_node(&self, x: &NodeId, y: &NodeId) -> bool {
        x == y
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.dom.set_quirks_mode(mode);
    }

    fn add_attrs_if_missing(&self, target: &NodeId, attrs: Vec<Attribute>) {
        self.count_attributes(&attrs);
        self.dom.add_attrs_if_missing(target, attrs);
        let count = |node: &TreeNode| node.as_element().map_or(0, |element| element.attrs.len());
        if self.dom.tree.query_node_or(target, 0, count) > MAX_ATTRIBUTES {
            self.stop();
        }
    }

    fn remove_from_parent(&self, target: &NodeId) {
        self.dom.remove_from_parent(target);
    }

    fn reparent_children(&self, node: &NodeId, new_parent: &NodeId) {
        self.dom.reparent_children(node, new_parent);
    }

    fn is_mathml_annotation_xml_integration_point(&self, handle: &NodeId) -> bool {
        self.dom.is_mathml_annotation_xml_integration_point(handle)
    }
}
