//! Bytes to text. Owns the order of evidence: byte order mark, header, what the document says of itself, a guess.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};

/// How far into a document its own word about its encoding may stand (HTML, section 4.2.5.4).
const DECLARATION: usize = 1_024;
/// This much tells the encoding of a longer document.
const SAMPLE: usize = 64 * 1024;

/// The text of a body. `label`: the header's `charset`. `markup`: whether the document may speak for itself. Broken
/// sequences become U+FFFD.
pub(super) fn decode(body: &[u8], label: Option<&str>, markup: bool) -> String {
    let encoding = match Encoding::for_bom(body) {
        Some((encoding, _)) => encoding,
        None => label
            .and_then(|label| Encoding::for_label(label.as_bytes()))
            .or_else(|| if markup { declared(body) } else { None })
            .unwrap_or_else(|| guess(body)),
    };
    encoding.decode_with_bom_removal(body).0.into_owned()
}

fn guess(body: &[u8]) -> &'static Encoding {
    if std::str::from_utf8(body).is_ok() {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    let sample = &body[..body.len().min(SAMPLE)];
    // A page whose beginning is plain ASCII shows what it is only further on.
    if !detector.feed(sample, sample.len() == body.len()) && sample.len() < body.len() {
        detector.feed(&body[sample.len()..], true);
    }
    detector.guess(None, Utf8Detection::Allow)
}

/// What `<meta charset>`, its older form or an XML declaration says.
fn declared(body: &[u8]) -> Option<&'static Encoding> {
    let head = body[..body.len().min(DECLARATION)].to_ascii_lowercase();
    let mut rest = &head[..];
    let xml = head.starts_with(b"<?xml");
    while let Some(at) = memchr::memchr(b'<', rest) {
        rest = &rest[at + 1..];
        let end = memchr::memchr(b'>', rest).unwrap_or(rest.len());
        let tag = &rest[..end];
        let name: Option<&[u8]> = if rest.starts_with(b"!--") {
            let comment = memchr::memmem::find(&rest[3..], b"-->").map_or(rest.len(), |at| at + 6);
            rest = &rest[comment.min(rest.len())..];
            continue;
        } else if tag.starts_with(b"meta") {
            Some(b"charset")
        } else if xml && tag.starts_with(b"?xml") {
            Some(b"encoding")
        } else {
            None
        };
        if let Some(found) = name.and_then(|name| value(tag, name)) {
            // UTF-16 cannot be meant: then this could not have been read.
            return match Encoding::for_label(found)? {
                e if e == UTF_16LE || e == UTF_16BE => Some(UTF_8),
                e if e == X_USER_DEFINED => Some(WINDOWS_1252),
                e => Some(e),
            };
        }
        rest = &rest[end..];
    }
    None
}

/// What follows `name=` in a tag, without quotes.
fn value<'a>(tag: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let after = tag[memchr::memmem::find(tag, name)? + name.len()..].trim_ascii_start();
    let after = after.strip_prefix(b"=")?.trim_ascii_start();
    let after = after.strip_prefix(b"\"").or_else(|| after.strip_prefix(b"'")).unwrap_or(after);
    let end = after.iter().position(|b| matches!(b, b'"' | b'\'' | b';' | b'/') || b.is_ascii_whitespace());
    Some(&after[..end.unwrap_or(after.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_counts_in_order() {
        let koi8 = encoding_rs::KOI8_R.encode("Привет, мир").0.into_owned();
        let meta = [b"<meta charset=\"koi8-r\">".as_slice(), &koi8].concat();
        assert!(decode(&meta, None, true).ends_with("Привет, мир"));
        assert!(!decode(&meta, Some("windows-1251"), true).contains("Привет"), "the header counts more");
        let old = [b"<META http-equiv=Content-Type content='text/html; charset=KOI8-R'>".as_slice(), &koi8]
            .concat();
        assert!(decode(&old, None, true).ends_with("Привет, мир"));
        let xml = [b"<?xml version='1.0' encoding='koi8-r'?>".as_slice(), &koi8].concat();
        assert!(decode(&xml, None, true).ends_with("Привет, мир"));
        let hidden = [b"<!-- <meta charset=utf-7> --><meta charset=koi8-r>".as_slice(), &koi8].concat();
        assert!(decode(&hidden, None, true).ends_with("Привет, мир"));
        assert_eq!(decode(b"\xef\xbb\xbfh\xc3\xa9", Some("latin1"), true), "hé");
        assert_eq!(decode(b"\xff\xfeh\0i\0", Some("utf-8"), false), "hi");
        assert_eq!(decode("<meta charset=utf-16>é".as_bytes(), None, true), "<meta charset=utf-16>é");
    }

    #[test]
    fn what_nobody_declares_is_guessed() {
        let text = "日本語の文章です。これは文字コードを推測するための長い文章です。";
        for encoding in [encoding_rs::SHIFT_JIS, encoding_rs::EUC_JP, UTF_8] {
            assert_eq!(decode(&encoding.encode(text).0, None, false), text, "{}", encoding.name());
        }
        let ascii_first = [" ".repeat(100_000).as_bytes(), &encoding_rs::SHIFT_JIS.encode(text).0].concat();
        assert!(decode(&ascii_first, None, true).ends_with(text));
        assert_eq!(decode(b"", None, true), "");
        assert_eq!(decode(b"<meta", Some("nonsense"), true), "<meta");
    }
}
