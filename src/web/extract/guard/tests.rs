//! The guard against trees that a parser without limits makes of the same documents.

use dom_query::{Document, NodeRef};
use proptest::prelude::*;

use super::*;

fn guarded(html: &str) -> Option<Document> {
    parse(html, 20)
}

fn is_harmless(html: &str) -> bool {
    guarded(html).is_some()
}

/// Without recursion: it reads trees that nothing guards.
fn depth(document: &Document) -> usize {
    let mut left = vec![(document.root(), 0)];
    let mut deepest = 0;
    while let Some((node, depth)) = left.pop() {
        deepest = deepest.max(depth);
        left.extend(node.children_it(false).map(|child: NodeRef<'_>| (child, depth + 1)));
    }
    deepest
}

/// Repeats of these make trees of any depth, or very many elements, if one counts carelessly.
const HOSTILE: [&str; 23] = [
    "<b>",
    "<div>",
    "<div></span>",
    "<span><div></span>",
    "<p><b id=N>",
    "<li><b id=N>",
    "<form><div></form>",
    "<div><table><tr><td></div>",
    "<svg><style><div>",
    "<td><div>",
    "<a href=x='><div>",
    "<div><!--><div>",
    "<table><td><div></table><b id=N>",
    "<div><object></div>",
    "<svg><section>",
    "<math><mi><div>",
    "<ul><li>",
    "<div><select></div></select>",
    "<button><div></button>",
    "<div><svg></svg",
    "<i N><table><td>",
    "<b><div></b>",
    "<select><style></select><div>",
];

#[test]
fn what_grows_with_the_document_is_refused() {
    for pattern in HOSTILE {
        let html: String = (0..400).map(|n| pattern.replace('N', &n.to_string())).collect();
        let found = depth(&Document::from(&*html));
        assert_eq!(is_harmless(&html), found <= MAX_DEPTH, "{pattern} is {found} deep");
    }
    assert!(!is_harmless(&"<div>".repeat(257)));
    assert!(!is_harmless(&format!("<p {}>", (0..129).map(|n| format!("a{n} ")).collect::<String>())));
    assert!(!is_harmless(&"<br>".repeat(100_001)));
    let quadratic: String = (0..5_000).map(|n| format!("<p><i id={n}>x")).collect();
    assert!(!is_harmless(&quadratic));
}

#[test]
fn ordinary_carelessness_is_harmless() {
    for pattern in [
        "<p>text",
        "<li>item",
        "<dt>a<dd>b",
        "<div><span>x</div>",
        "<p><a name=x>text",
        "<br/>",
        "<img src=x>",
        "<p>a</p></div>",
        "<option>a",
        "<b>x</b>",
        "<p><b>x</p></b>",
        "<svg><path d=x /></svg>",
        "<script>'<div>'</script>",
        "<h2>a<h2>b</h2></h2>",
        "<input><label>x</label>",
        "<custom-tag>x</custom-tag>",
        "<center><font>x</font></center>",
    ] {
        let html = format!("<ul>{}</ul>", pattern.repeat(2_000));
        assert!(is_harmless(&html), "{pattern}");
    }
    let table = format!("<table>{}</table>", "<tr><td>a<td><font color=red><b>b<td><p>c".repeat(2_000));
    assert!(is_harmless(&table));
}

pub(in crate::web::extract) fn tag() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "div",
        "p",
        "b",
        "i",
        "a",
        "span",
        "table",
        "tr",
        "td",
        "li",
        "ul",
        "svg",
        "math",
        "mi",
        "style",
        "title",
        "form",
        "button",
        "select",
        "option",
        "object",
        "template",
        "h1",
        "dd",
        "section",
        "font",
        "foreignObject",
        "caption",
        "tbody",
        "noscript",
        "x-y",
        "textarea",
        "code",
        "nobr",
    ]);
    (names, any::<bool>(), 0..4u8).prop_map(|(name, end, id)| match (end, id) {
        (true, _) => format!("</{name}>"),
        (false, 0) => format!("<{name}>"),
        (false, 1) => format!("<{name}>x"),
        (false, id) => format!("<{name} id={id}>"),
    })
}

proptest! {
    #[test]
    fn the_guard_changes_no_tree_and_passes_none_that_is_deep(tags in prop::collection::vec(tag(), 1..9), times in 1..300_usize) {
        let html = tags.concat().repeat(times);
        let free = Document::from(&*html);
        match guarded(&html) {
            Some(dom) => {
                prop_assert!(depth(&dom) <= MAX_DEPTH);
                prop_assert_eq!(dom.html(), free.html());
            }
            None => prop_assert!(depth(&free) > MAX_DEPTH || html.contains("<template"), "{} is refused", tags.concat()),
        }
    }
}
