//! What a finished tree would cost those who work on it. Owns the limits on that: each bounds something that an
//! extractor multiplies, in time or in memory. Over the 181 pages of the article benchmark the most are 104,006 places,
//! 5.8 million bytes of text, and 17,472 of addresses.

use dom_query::{Document as Dom, Element, NodeData, NodeId};
use memchr::{memchr_iter, memchr2_iter};

use super::{MAX_ATTRIBUTES, MAX_DEPTH};

/// Nodes and lines, each as often as it has ancestors. Searches below each element look at this many nodes; and each
/// list or quotation around a line puts up to 13 characters before it.
const MAX_PLACES: usize = 2_000_000;
/// Bytes of text, each as often as it has ancestors: what is read if the text of each element is.
const MAX_TEXT: usize = 32_000_000;
/// Bytes that writing the tree out again looks at: html5ever's serializer (0.40) searches the whole rest of a text for
/// a bracket at each character that it escapes.
const MAX_ESCAPING: usize = 1_000_000_000;
/// Bytes of all URLs when each is written in full.
const MAX_ADDRESSES: usize = 32_000_000;

/// The serializer escapes nothing in these.
const RAW: [&str; 7] = ["style", "script", "xmp", "iframe", "noembed", "noframes", "plaintext"];

/// Whether the tree may be given to the extractors. `address`: the length of the URL that its links are relative to.
pub(super) fn is_harmless(dom: &Dom, address: usize) -> bool {
    let mut cost = Cost { base: address, ..Cost::default() };
    let mut left = vec![(dom.root().id, 0, false)];
    while let Some((id, depth, raw)) = left.pop() {
        let template = dom.tree.query_node(&id, |node| cost.add(&node.data, depth, raw)).flatten();
        if depth > MAX_DEPTH || cost.is_excessive() {
            return false;
        }
        let raw = dom.tree.get_name(&id).is_some_and(|name| RAW.contains(&&*name.local));
        left.extend(template.map(|content| (content, depth + 1, false)));
        left.extend(dom.tree.child_ids_of_it(&id, false).map(|child| (child, depth + 1, raw)));
    }
    true
}

#[derive(Default)]
struct Cost {
    places: usize,
    text: usize,
    escaping: usize,
    addresses: usize,
    base: usize,
    /// Most on one element.
    attributes: usize,
}

impl Cost {
    /// Gives the content of a template. `raw`: text here is written as it is.
    fn add(&mut self, data: &NodeData, depth: usize, raw: bool) -> Option<NodeId> {
        self.places += depth;
        match data {
            NodeData::Text { contents } => {
                self.places += depth * memchr_iter(b'\n', contents.as_bytes()).count();
                self.text += depth * contents.len();
                self.escaping += if raw { 0 } else { escaping(contents) };
                None
            }
            NodeData::Element(element) => {
                self.add_attributes(element);
                element.template_contents
            }
            _ => None,
        }
    }

    fn add_attributes(&mut self, element: &Element) {
        self.attributes = self.attributes.max(element.attrs.len());
        for attribute in &element.attrs {
            let value = &*attribute.value;
            self.escaping += escaping(value);
            match &*attribute.name.local {
                "href" if &*element.name.local == "base" => self.base = self.base.max(value.len()),
                "href" | "src" | "poster" => self.addresses += 1,
                "srcset" => self.addresses += 1 + memchr_iter(b',', value.as_bytes()).count(),
                _ => {}
            }
        }
    }

    fn is_excessive(&self) -> bool {
        self.places > MAX_PLACES
            || self.text > MAX_TEXT
            || self.escaping > MAX_ESCAPING
            || self.addresses * self.base > MAX_ADDRESSES
            || self.attributes > MAX_ATTRIBUTES
    }
}

/// 0xC2 may begin a no-break space.
fn escaping(text: &str) -> usize {
    text.len() * memchr2_iter(b'&', 0xc2, text.as_bytes()).count()
}
