//! Makes a tree fit for reading: drops what is no content, and makes links whole and short.

use dom_query::{Document as Dom, NodeRef, Selection};
use url::Url;

/// The page around its content.
const AROUND: &str = "script, style, noscript, template, svg, iframe, object, canvas, nav, header, footer, aside, form, \
    [hidden], [aria-hidden=true]";
/// Query parameters that tell who sent the reader, and nothing of the page.
const TRACKING: [&str; 9] =
    ["gclid", "fbclid", "dclid", "gbraid", "wbraid", "msclkid", "mc_cid", "mc_eid", "igshid"];
/// Texts of links by which a heading names itself.
const ANCHORS: [&str; 5] = ["", "#", "¶", "§", "🔗"];

/// Takes away what is around the content.
pub(super) fn strip(dom: &Dom) {
    dom.select(AROUND).remove();
}

/// Makes links absolute and short, drops what leads nowhere; without `links`, all of them and all pictures.
pub(super) fn clean(dom: &Dom, base: &Url, links: bool) {
    if !links {
        dom.select("img, picture").remove();
    }
    dom.select("img").nodes().iter().for_each(|image| match image.attr("src") {
        Some(src) if !src.trim_start().starts_with("data:") => set_url(image, "src", &src, base),
        _ => image.remove_from_parent(),
    });
    for link in dom.select("a").nodes() {
        let href = link.attr("href").unwrap_or_default();
        if !href.trim_start().starts_with('#') && links && !href.is_empty() {
            set_url(link, "href", &href, base);
        } else if href.trim_start().starts_with('#') && ANCHORS.contains(&link.text().trim()) {
            link.remove_from_parent();
        } else {
            link.remove_attr("href");
        }
    }
    for heading in dom.select("h1, h2, h3, h4, h5, h6").nodes() {
        if heading.text().trim().is_empty() && within(heading, "img").is_empty() {
            heading.remove_from_parent();
        }
    }
    for table in dom.select("table").nodes() {
        head(table);
        within(table, "caption").nodes().iter().for_each(|caption| {
            table.insert_before(caption);
            caption.rename("p");
        });
    }
    for small in dom.select("sup, sub").nodes() {
        raise(small);
    }
    for block in dom.select("pre").nodes() {
        code(block);
    }
}

fn set_url(node: &NodeRef<'_>, attribute: &str, value: &str, base: &Url) {
    match base.join(value) {
        Ok(url) if matches!(url.scheme(), "http" | "https" | "mailto" | "tel") => {
            node.set_attr(attribute, without_tracking(url).as_str());
        }
        _ => node.remove_attr(attribute),
    }
}

fn without_tracking(mut url: Url) -> Url {
    let tracks = |name: &str| name.starts_with("utm_") || TRACKING.contains(&name);
    if url.query_pairs().any(|(name, _)| tracks(&name)) {
        let kept: Vec<(String, String)> = url
            .query_pairs()
            .filter(|(name, _)| !tracks(name))
            .map(|(n, v)| (n.into_owned(), v.into_owned()))
            .collect();
        if kept.is_empty() {
            url.set_query(None);
        } else {
            url.query_pairs_mut().clear().extend_pairs(kept);
        }
    }
    url
}

/// A table of data without a head gets its first row as one: Markdown knows no others. Tables around tables are layout.
fn head(table: &NodeRef<'_>) {
    let rows = within(table, "tr");
    if within(table, "th, thead, table").exists() || rows.length() < 2 {
        return;
    }
    let cells = rows.nodes().first().map(|row| within(row, "td"));
    if let Some(cells) = cells.filter(|cells| cells.length() > 1) {
        cells.rename("th");
    }
}

/// Preformatted text is code to Markdown, and marks within it would be taken for parts of it.
fn code(block: &NodeRef<'_>) {
    within(block, "a, b, strong, i, em, del, s, strike, sup, sub").rename("span");
    for line_end in within(block, "br").nodes() {
        line_end.insert_before(&block.tree.new_text("\n"));
        line_end.remove_from_parent();
    }
    if within(block, "code").is_empty() {
        let code = block.tree.new_element("code");
        if let Some(first) = block.first_child() {
            code.append_children(&first);
        }
        block.append_child(&code);
    }
}

/// Small digits become characters of their own: 10<sup>9</sup> is not 109.
fn raise(small: &NodeRef<'_>) {
    let digits = if small.has_name("sup") {
        "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"
    } else {
        "₀₁₂₃₄₅₆₇₈₉₊₋"
    };
    let small_of =
        |c: char| "0123456789+-".find(if c == '−' { '-' } else { c }).and_then(|at| digits.chars().nth(at));
    if let Some(text) = small.text().trim().chars().map(small_of).collect::<Option<String>>() {
        small.set_text(text);
    }
}

fn within<'a>(node: &NodeRef<'a>, selector: &str) -> Selection<'a> {
    Selection::from(*node).select(selector)
}

/// At most one empty line in a row, no white space at the ends of lines; code stays as it is.
pub(super) fn squeeze(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut fence: Option<&str> = None;
    let mut empty = 0;
    for line in text.lines() {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        // Two spaces at the end of a line break it in Markdown.
        let hard_break = line.ends_with("  ") && !start.is_empty();
        let kept = if fence.is_some() { line } else { line.trim_end() };
        empty = if kept.is_empty() { empty + 1 } else { 0 };
        if fence.is_some() || empty < 2 {
            out.push_str(kept);
            out.push_str(if hard_break && fence.is_none() { "  \n" } else { "\n" });
        }
    }
    out.trim_matches('\n').to_owned()
}
