//! The Markdown of a tree. Owns the way to the converter: the tree is handed over as it is, without what is no
//! content, and so that nothing in the converter grows with the square of the page.

use std::{cell::RefCell, rc::Rc, time::Instant};

use dom_query::{Document as Dom, Element, NodeData, NodeRef};
use htmd::{
    HtmlToMarkdown, Node as Converted,
    element_handler::{HandlerResult, Handlers},
    options::{BulletListMarker, Options},
};
use markup5ever_rcdom::NodeData as Data;
use rcdom_html5ever::{Attribute, LocalName, QualName, ns};

/// What no reader of a page's text wants.
const NOISE: [&str; 9] =
    ["script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "head"];
/// The converter joins equal neighbours (`<i>a</i><i>b</i>`), each time moving all after them. Among more than this
/// many it does not.
const MANY: usize = 1_000;
/// Characters that all tables of a page may have: the converter pads each cell to the widest of its column.
const MAX_TABLES: usize = 8_000_000;

/// Back quotes that all code of a page may have: the converter looks for a run of another length than each of them.
const MAX_QUOTES: usize = 20_000;
/// Where the converter is stopped when it takes too long.
const STOPS: [&str; 16] = [
    "a",
    "b",
    "blockquote",
    "code",
    "div",
    "em",
    "i",
    "li",
    "ol",
    "p",
    "pre",
    "strong",
    "table",
    "td",
    "tr",
    "ul",
];

/// The Markdown of a document; of a part of it if that takes longer than `until`.
pub(super) fn of(dom: &Dom, until: Instant) -> String {
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    let stop = move |handlers: &dyn Handlers, element: htmd::Element<'_>| {
        if Instant::now() > until { None } else { handlers.fallback(element) }
    };
    let converter = HtmlToMarkdown::builder()
        .options(options)
        .add_handler(STOPS.to_vec(), stop)
        .add_handler(vec!["del", "s", "strike"], deleted)
        .build();
    converter.tree_to_markdown(&converted(dom))
}

/// What was deleted says the opposite without its mark.
fn deleted(handlers: &dyn Handlers, element: htmd::Element<'_>) -> Option<HandlerResult> {
    let text = handlers.walk_children(element.node).content;
    let inner = text.trim();
    let marked = format!("~~{inner}~~");
    Some(if inner.is_empty() { text } else { text.replacen(inner, &marked, 1) }.into())
}

fn converted(dom: &Dom) -> Rc<Converted> {
    let root = Converted::new(Data::Document);
    let mut budget = Budget { tables: MAX_TABLES, quotes: MAX_QUOTES };
    let mut left = vec![(dom.root(), Rc::clone(&root))];
    while let Some((from, to)) = left.pop() {
        let many = from.children_it(false).nth(MANY).is_some();
        for child in from.children_it(false) {
            match child.query(|node| data(&node.data)).flatten() {
                Some(Data::Text { contents }) => push_text(&to, contents),
                Some(Data::Element { name, attrs, template_contents, .. }) => {
                    if many {
                        push(&to, Data::Comment { contents: "".into() });
                    }
                    let data = Data::Element {
                        name: budget.instead(&child).map_or(name, html_name),
                        attrs,
                        template_contents,
                        mathml_annotation_xml_integration_point: false,
                    };
                    left.push((child, push(&to, data)));
                }
                _ => {}
            }
        }
    }
    root
}

fn data(from: &NodeData) -> Option<Data> {
    match from {
        NodeData::Text { contents } => Some(Data::Text { contents: RefCell::new(contents.clone()) }),
        NodeData::Element(element) if !NOISE.contains(&&*element.name.local) => Some(Data::Element {
            name: html_name(&element.name.local),
            attrs: RefCell::new(attributes(element)),
            template_contents: RefCell::new(None),
            mathml_annotation_xml_integration_point: false,
        }),
        _ => None,
    }
}

fn html_name(name: &str) -> QualName {
    QualName::new(None, ns!(html), LocalName::from(name))
}

fn attributes(element: &Element) -> Vec<Attribute> {
    let attribute = |name: &str| QualName::new(None, ns!(), LocalName::from(name));
    let all = element.attrs.iter();
    all.map(|a| Attribute { name: attribute(&a.name.local), value: a.value.clone() }).collect()
}

fn push(to: &Rc<Converted>, data: Data) -> Rc<Converted> {
    let node = Converted::new(data);
    node.parent.set(Some(Rc::downgrade(to)));
    to.children.borrow_mut().push(Rc::clone(&node));
    node
}

/// Texts that came together because what was between them is gone are one.
fn push_text(to: &Rc<Converted>, text: RefCell<html5ever::tendril::StrTendril>) {
    if let Some(Data::Text { contents }) = to.children.borrow().last().map(|last| &last.data) {
        contents.borrow_mut().push_tendril(&text.borrow());
        return;
    }
    push(to, Data::Text { contents: text });
}

/// What is left to the elements for which the converter takes more than their size.
struct Budget {
    tables: usize,
    quotes: usize,
}

impl Budget {
    /// The name that an element gets if it is beyond the budget.
    fn instead(&mut self, node: &NodeRef<'_>) -> Option<&'static str> {
        if node.has_name("table") {
            take(&mut self.tables, padded(node)).then_some("div")
        } else if node.has_name("code") {
            take(&mut self.quotes, quotes(node)).then_some("span")
        } else {
            None
        }
    }
}

/// Whether there is too little left.
fn take(left: &mut usize, size: usize) -> bool {
    let over = size > *left;
    if !over {
        *left -= size;
    }
    over
}

fn quotes(code: &NodeRef<'_>) -> usize {
    let of = |node: NodeRef<'_>| {
        node.query_or(0, |node| match &node.data {
            NodeData::Text { contents } => memchr::memchr_iter(b'`', contents.as_bytes()).count(),
            _ => 0,
        })
    };
    code.descendants_it().map(of).sum()
}

/// The size of a table whose cells are as wide as the widest of their column.
fn padded(table: &NodeRef<'_>) -> usize {
    let (mut rows, mut widths) = (0, Vec::new());
    for row in table.descendants_it().filter(|node| node.has_name("tr")) {
        rows += 1;
        for (at, cell) in row.children_it(false).filter(NodeRef::is_element).enumerate() {
            let width = width(&cell);
            match widths.get_mut(at) {
                Some(widest) => *widest = width.max(*widest),
                None => widths.push(width),
            }
        }
    }
    widths.iter().sum::<usize>().saturating_mul(rows)
}

/// About how many characters a cell takes.
fn width(cell: &NodeRef<'_>) -> usize {
    let of = |node: NodeRef<'_>| {
        node.query_or(0, |node| match &node.data {
            NodeData::Text { contents } => contents.len(),
            NodeData::Element(element) => 3 + element.attrs.iter().map(|a| a.value.len()).sum::<usize>(),
            _ => 0,
        })
    };
    3 + cell.descendants_it().map(of).sum::<usize>()
}
