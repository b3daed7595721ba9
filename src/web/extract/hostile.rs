//! Pages that would abort the process, hang a thread or use up the memory if any parser or extractor took them as
//! they are. Each is here because something in the way of a page grows faster than the page.

/// `n` of what `make` gives for 0, 1, ...
fn many(n: usize, make: impl Fn(usize) -> String) -> String {
    (0..n).map(make).collect()
}

fn nested(n: usize, open: &str, inner: &str, close: &str) -> String {
    format!("{}{inner}{}", open.repeat(n), close.repeat(n))
}

/// What the parser makes of them is deep, wide or repeated.
pub(super) fn trees() -> Vec<(&'static str, String)> {
    vec![
        ("nested b", "<b>".repeat(50_000)),
        ("nested b with text", "<b>x".repeat(50_000)),
        ("nested div", "<div>".repeat(100_000)),
        ("8k nested div", nested(8_000, "<div>", "deep", "</div>")),
        ("2k nested div", "<div>".repeat(2_000)),
        ("512 nested", "<div>".repeat(512)),
        ("256 nested", nested(250, "<div>", "text", "</div>")),
        ("nothing", String::new()),
        ("attributes", format!("<p {}>x", many(200_000, |n| format!("a{n}=b ")))),
        ("attributes of the body", many(90_000, |n| format!("<body a{n}=b>"))),
        ("a repeated attribute", format!("<b title='{}'>{}", "t".repeat(1_000_000), "<p>x".repeat(90_000))),
        ("tables in tables", "<table><tr><td>".repeat(20_000)),
        ("tables around everything", "<table><div>".repeat(20_000)),
        ("text before tables", "<table>x<tr>y<b>z".repeat(20_000)),
        ("open formatting", many(20_000, |n| format!("<p><i id={n}>x"))),
        (
            "formatting with attributes",
            many(30_000, |n| format!("<b {}>", many(100, |a| format!("a{a}={n} ")))),
        ),
        ("misnested formatting", many(20_000, |n| format!("<b id={n}><p></b>"))),
        ("misnested links", "<a href=x><div><a href=y></div>".repeat(30_000)),
        (
            "a block that moves",
            format!(
                "{}<p>{}{}",
                many(200, |n| format!("<b id={n}>")),
                "<br>".repeat(90_000),
                "</b>".repeat(90_000)
            ),
        ),
        ("forms that end early", "<form><div></form>".repeat(20_000)),
        ("svg", "<svg><g>".repeat(50_000)),
        ("svg in html in svg", "<svg><foreignObject><p>".repeat(20_000)),
        ("math", "<math><mi><annotation-xml encoding=text/html><div>".repeat(20_000)),
        ("templates", "<template>".repeat(50_000)),
        ("templates in tables", "<table><template><tr><td>".repeat(20_000)),
        ("selects", "<select><option>".repeat(30_000)),
        (
            "selected content",
            format!("<select><button><selectedcontent></button>{}", "<option selected>x<b>".repeat(30_000)),
        ),
        ("framesets", "<frameset><frame>".repeat(30_000)),
        ("end tags", format!("{}{}", "<div>".repeat(200), "</span>".repeat(90_000))),
        ("noscript around an open style", format!("<noscript><style></noscript>{}x", "<div>".repeat(60_000))),
        ("noscript in the head", format!("<head><noscript><style></noscript>{}x", "<b>".repeat(60_000))),
        ("plain text", format!("<plaintext>{}", "<div>".repeat(60_000))),
        ("a comment that ends by a slip", format!("<!--a--!>{}x", "<div>".repeat(60_000))),
        ("a comment that ends late", format!("<!-- ---!-- --->{}x", "<b>".repeat(60_000))),
        ("comments", "<!---->".repeat(600_000)),
    ]
}

/// The tokenizer has much to do with them.
pub(super) fn tokens() -> Vec<(&'static str, String)> {
    let mut pages: Vec<(&'static str, String)> = vec![
        ("entities", "&".repeat(5_000_000)),
        ("entities in an attribute", format!("<a title='{}'>x", "&".repeat(2_000_000))),
        ("entities between ignored tags", "&&&&&&&&</x>".repeat(90_000)),
        ("entities in a table", format!("<table>{}", "&&&&&&&&<tr>".repeat(90_000))),
        ("long entities", "&CounterClockwiseContourIntegra".repeat(150_000)),
        ("open brackets", "<".repeat(5_000_000)),
        ("20 MB of brackets", "<".repeat(20_000_000)),
        ("open comments", "<!--".repeat(1_000_000)),
        ("dashes", format!("<!--{}", "-".repeat(5_000_000))),
        ("instructions", "<?".repeat(500_000)),
        ("sections", format!("<svg>{}", "<![CDATA[x]]".repeat(300_000))),
        ("cut tag", format!("<a {}", "x='".repeat(300_000))),
        ("spaces", " ".repeat(5_000_000)),
        ("nothing but zeros", "\0".repeat(5_000_000)),
        ("zeros between", "\0<p>\0".repeat(90_000)),
        ("script in script", format!("<script><!--{}", "<script>".repeat(300_000))),
    ];
    for (name, raw) in [
        ("open script", "script"),
        ("open style", "style"),
        ("open title", "title"),
        ("open textarea", "textarea"),
        ("open iframe", "iframe"),
        ("open xmp", "xmp"),
    ] {
        pages.push((name, format!("<{raw}>{}", format!("</{}&<", &raw[..3]).repeat(300_000))));
    }
    pages
}

/// Harmless trees, or nearly, that an extractor multiplies.
pub(super) fn costs() -> Vec<(&'static str, String)> {
    let long = "word, ".repeat(150_000);
    let runs = many(2_000, |n| format!("{} ", "`".repeat(n)));
    vec![
        ("lists", "<ul><li>".repeat(120)),
        ("numbered lists", nested(80, "<ol start=2147483647><li>", &"<p>x".repeat(20_000), "")),
        ("quoted lines", nested(200, "<blockquote>", &format!("<pre>{}", "x\n".repeat(1_000_000)), "")),
        ("a wide cell", format!("<table><tr><th>{long}{}", "<tr><td>x".repeat(40_000))),
        ("many columns", format!("<table><tr>{}{}", "<th>x".repeat(40_000), "<tr><td>x".repeat(20_000))),
        ("many rows", format!("<table><tr><th>a<th>b{}", "<tr><td>some words<td>others".repeat(30_000))),
        ("nested tables", nested(60, "<table><tr><th>x<td>", &"<p>x".repeat(20_000), "</table>")),
        ("equal neighbours", format!("<p>{}", "<i>some more words of it</i>".repeat(95_000))),
        ("long equal neighbours", format!("<p>{}", format!("<i>{}</i>", "word ".repeat(100)).repeat(9_000))),
        ("code", format!("<p>{}", nested(100, "<code>", &runs, "</code>"))),
        ("back quotes", format!("<p><code>{runs}{}</code>", "` ".repeat(1_000_000))),
        ("a long base", format!("<base href='http://h/{}/'>{}", "b".repeat(1_000_000), "<a href=x>y</a>".repeat(90_000))),
        ("paragraphs", "<p>Some words, and others, in a line of text.".repeat(90_000)),
        ("short paragraphs", "<p>x".repeat(99_000)),
        ("lines", "text, and text<br>".repeat(95_000)),
        ("empty lines", "<br><br>x".repeat(49_000)),
        ("divisions", "<div>words, and words<br></div>".repeat(49_000)),
        ("words in spans", format!("<div>{}</div>", "x<span>y</span>".repeat(95_000))),
        ("links", "<a href='/a?utm_source=x&b=c'>words</a> ".repeat(95_000)),
        ("script links", "<a href='javascript:x'>words <b>here</b></a>".repeat(49_000)),
        ("pictures", format!("<figure>{}", "<img class=lazy data-src=/a.png srcset='a.png 1x, b.png 2x'>".repeat(70_000))),
        ("a set of pictures", format!("<img srcset='{}'>", "a 1x,".repeat(500_000))),
        ("headings", "<h2>x</h2><h1>t</h1>".repeat(49_000)),
        ("sections", format!("{}{}", "<section><p>words, of text, in it</section>".repeat(45_000), long)),
        ("what is shared", "<div class='share comment sidebar'>x, y</div>".repeat(90_000)),
        ("hidden", "<p style='display:none' aria-hidden=true hidden>x</p>".repeat(90_000)),
        ("objects", nested(120, "<object>", &long, "</object>")),
        ("frames", "<iframe src=//www.youtube.com/embed/x></iframe><embed src=x>".repeat(49_000)),
        ("classes", format!("<div class='{}'><p>{long}", "article comment ".repeat(300_000))),
        ("a title", format!("<title>{}</title><h1>t</h1>", "a | b - c: ".repeat(400_000))),
        ("declarations", "<meta property='og:title article:author' content='x | y'>".repeat(70_000)),
        ("authors", "<span class=byline rel=author itemprop='author name'>by <b>x</b></span>".repeat(49_000)),
        ("linked data", format!("<script type=application/ld+json>{}</script>", r#"{"@graph":["#.repeat(200_000))),
        ("linked lists", format!("<script type=application/ld+json>{}</script>", "[".repeat(2_000_000))),
        ("many linked data", r#"<script type=application/ld+json>{"@context":"https://schema.org","@type":"Article","name":"x"}</script>"#.repeat(45_000)),
        ("deep and wide", nested(240, "<div>", &"<p>words, here".repeat(15_000), "")),
        ("commas under lists", nested(60, "<ul><li>,", &long, "")),
        ("stairs", many(240, |n| format!("<div><p>words, and {n}</p>{}", "<span>x</span>".repeat(100)))),
        ("forms", "<form><fieldset><input><p>x</form>".repeat(30_000)),
        ("definitions", "<dl><dt>a<dd>b, c</dl>".repeat(30_000)),
    ]
}
