//! Element names, as far as the guard needs to know them (HTML, sections 13.1.2, 13.2.4 and 13.2.6).

/// What matters of an element's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Has no content.
    Void,
    /// Its content is no markup.
    Raw,
    /// Survives the end of what encloses it, and is made again.
    Formatting,
    /// Part of a table.
    Table,
    /// Bounds the search for what an end tag ends.
    Boundary,
    /// Foreign content.
    Foreign,
    /// Others that the standard calls special.
    Special,
    /// `html`, `head`, `body`: there once, whatever the document says.
    Frame,
    Ordinary,
}

pub(super) fn kind(name: &str) -> Kind {
    match name {
        "area" | "base" | "basefont" | "bgsound" | "br" | "col" | "embed" | "frame" | "hr" | "img"
        | "input" | "link" | "meta" | "param" | "source" | "track" | "wbr" => Kind::Void,
        "script" | "style" | "textarea" | "title" | "iframe" | "xmp" | "noembed" | "noframes" => Kind::Raw,
        "a" | "b" | "big" | "code" | "em" | "font" | "i" | "nobr" | "s" | "small" | "strike" | "strong"
        | "tt" | "u" => Kind::Formatting,
        "table" | "tbody" | "thead" | "tfoot" | "tr" | "td" | "th" | "caption" | "colgroup" => Kind::Table,
        "applet" | "marquee" | "object" | "template" | "select" | "button" => Kind::Boundary,
        "svg" | "math" => Kind::Foreign,
        "html" | "head" | "body" => Kind::Frame,
        "address" | "article" | "aside" | "blockquote" | "center" | "dd" | "details" | "dir" | "div"
        | "dl" | "dt" | "fieldset" | "figcaption" | "figure" | "footer" | "form" | "frameset" | "h1"
        | "h2" | "h3" | "h4" | "h5" | "h6" | "header" | "hgroup" | "li" | "listing" | "main" | "menu"
        | "nav" | "noscript" | "ol" | "p" | "plaintext" | "pre" | "search" | "section" | "summary" | "ul" => {
            Kind::Special
        }
        _ => Kind::Ordinary,
    }
}

/// Start tags that end an open paragraph.
pub(super) fn ends_paragraph(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "blockquote"
            | "center"
            | "dd"
            | "details"
            | "dir"
            | "div"
            | "dl"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "header"
            | "hgroup"
            | "hr"
            | "li"
            | "listing"
            | "main"
            | "menu"
            | "nav"
            | "ol"
            | "p"
            | "pre"
            | "section"
            | "summary"
            | "ul"
    )
}

/// Elements of a table that end when one of this name begins.
pub(super) fn replaces(name: &str) -> &'static [&'static str] {
    match name {
        "td" | "th" => &["td", "th", "caption", "colgroup"],
        "tr" => &["tr", "caption", "colgroup"],
        "tbody" | "thead" | "tfoot" => &["tbody", "thead", "tfoot", "caption", "colgroup"],
        _ => &[],
    }
}
