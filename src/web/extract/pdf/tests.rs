//! PDFs made here, honest and hostile.

use super::*;

/// A PDF of these objects, with a trailer.
fn pdf_of(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut body = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        offsets.push(body.len());
        body.extend(format!("{} 0 obj\n", at + 1).bytes());
        body.extend(object);
        body.extend(b"\nendobj\n");
    }
    let table = body.len();
    body.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
    for offset in offsets {
        body.extend(format!("{offset:010} 00000 n \n").bytes());
    }
    body.extend(
        format!("trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n", objects.len() + 1)
            .bytes(),
    );
    body
}

fn stream(dictionary: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("<< /Length {} {dictionary} >>\nstream\n", content.len());
    [head.as_bytes(), content, b"\nendstream"].concat()
}

/// Two pages whose contents are objects 6 and 7; object 8 is a form named F.
fn pdf(first: Vec<u8>, second: Vec<u8>, form: Vec<u8>) -> Vec<u8> {
    let page = |content: u32| {
        format!(
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {content} 0 R /Resources << /Font << /F1 5 0 R >> /XObject << /F 8 0 R >> >> >>"
    ).into_bytes()
    };
    pdf_of(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R 4 0 R] /Count 2 >>".to_vec(),
        page(6),
        page(7),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_vec(),
        first,
        second,
        form,
    ])
}

fn words(text: &str) -> Vec<u8> {
    stream("", format!("BT /F1 12 Tf 72 700 Td ({text}) Tj ET").as_bytes())
}

fn deflate(content: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_pdf_gives_its_text_with_page_breaks() {
    let plain_form = stream("/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << >>", b"");
    let text = read(&pdf(words("Hello world"), words("Second page"), plain_form)).unwrap();
    let pages: Vec<&str> = text.split('\u{c}').map(str::trim).collect();
    assert_eq!(pages, ["Hello world", "Second page"]);
}

#[test]
fn hostile_pdfs_end() {
    let form = |content: &[u8]| {
        stream(
            "/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /F 8 0 R >> >>",
            content,
        )
    };
    let inherits = stream("/Type /XObject /Subtype /Form /BBox [0 0 9 9]", b"/F Do");
    let draw = || stream("", b"/F Do");
    assert_eq!(read(&pdf(draw(), draw(), form(b"/F Do"))), None, "a form that draws itself");
    assert_eq!(read(&pdf(draw(), draw(), inherits)), None, "the same, by the page's names");
    let zeros = deflate(&vec![b' '; 40 << 20]);
    let bomb = stream("/Filter /FlateDecode", &zeros);
    assert_eq!(read(&pdf(bomb, words("x"), form(b""))), None, "a bomb");
    let twice = stream("/Filter [/FlateDecode /FlateDecode]", &deflate(&zeros));
    assert_eq!(read(&pdf(twice, words("x"), form(b""))), None, "a bomb in a parcel");
    let deep = stream("", "[".repeat(200_000).as_bytes());
    read(&pdf(deep, words("x"), form(b"")));
    for cut in [0, 5, 100, 400, 700] {
        let whole = pdf(words("x"), words("y"), form(b""));
        std::panic::catch_unwind(|| read(&whole[..cut])).ok();
    }
}
