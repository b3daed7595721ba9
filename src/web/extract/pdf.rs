//! The text of a PDF, a form feed between its pages. Owns what keeps the PDF library from using up memory or stack:
//! checks before it sees the file, and an output that ends it when it has gone on too long.

#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    io::{self, Write},
    time::{Duration, Instant},
};

use flate2::write::ZlibDecoder;
use pdf_extract::{
    Dictionary, Document, MediaBox, Object, ObjectId, OutputDev, OutputError, PlainTextOutput, Transform,
    output_doc,
};

/// One stream may unpack to this much, in bytes...
const MAX_STREAM: usize = 16 * 1024 * 1024;
/// ...and all together to this.
const MAX_STREAMS: usize = 64 * 1024 * 1024;
const MAX_TEXT: usize = 5 * 1024 * 1024;
/// Streams packed more than once are no documents.
const MAX_LAYERS: usize = 3;
/// Forms inside forms.
const MAX_FORMS: usize = 16;
/// Shorter than the deadline of the thread, which can only leave it behind.
const LIMIT: Duration = Duration::from_secs(10);

/// The text, unless the file is broken, encrypted or hostile.
pub(super) fn read(body: &[u8]) -> Option<String> {
    if !unpacks_to_little(body) {
        return None;
    }
    let document = Document::load_mem(body).ok()?;
    if document.is_encrypted() || !pages_are_finite(&document) {
        return None;
    }
    let mut text = String::new();
    let mut output = Bounded {
        inner: PlainTextOutput::new(&mut text),
        until: Instant::now() + LIMIT,
        characters: 0,
        page: 0,
    };
    // What was read before a fault is worth having.
    let read = output_doc(&document, &mut output);
    if read.is_err() && text.trim().is_empty() {
        return None;
    }
    Some(clean(&text))
}

/// No white space at the ends of lines, at most one empty line in a row.
fn clean(text: &str) -> String {
    let pages = text.split('\u{c}').map(super::tidy::squeeze);
    pages.collect::<Vec<_>>().join("\n\u{c}\n").trim_matches(['\n', '\u{c}']).to_owned()
}

/// Whether the streams stay small when unpacked. What is no stream but looks like one counts as well.
fn unpacks_to_little(body: &[u8]) -> bool {
    let mut total = 0;
    for at in memchr::memmem::find_iter(body, b"stream") {
        let after = &body[at + 6..];
        let packed = after
            .strip_prefix(b"\r\n")
            .or_else(|| after.strip_prefix(b"\n"))
            .or_else(|| after.strip_prefix(b"\r"));
        let Some(packed) = packed else { continue };
        let end = memchr::memmem::find(packed, b"endstream").unwrap_or(packed.len());
        let Some(size) = unpacked(&packed[..end], MAX_LAYERS) else { return false };
        total += size;
        if total > MAX_STREAMS {
            return false;
        }
    }
    // The other packing that the library knows; none has written it for decades.
    memchr::memmem::find(body, b"LZW").is_none()
}

/// The size of a stream, unpacked as long as it looks packed; `None` beyond the limits.
fn unpacked(packed: &[u8], layers: usize) -> Option<usize> {
    let zlib = packed.len() > 2
        && packed[0] & 0x0f == 8
        && (u16::from(packed[0]) << 8 | u16::from(packed[1])) % 31 == 0;
    if !zlib {
        return (packed.len() <= MAX_STREAM).then_some(packed.len());
    }
    if layers == 0 {
        return None;
    }
    let mut decoder = ZlibDecoder::new(Limited(Vec::new()));
    let failed = decoder.write_all(packed).and_then(|()| decoder.flush()).err();
    if failed.is_some_and(|error| error.kind() == io::ErrorKind::FileTooLarge) {
        return None;
    }
    let inner = std::mem::take(&mut decoder.get_mut().0);
    Some(packed.len().max(unpacked(&inner, layers - 1)?))
}

struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.0.len() + part.len() > MAX_STREAM {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether each page has each of its streams once, and no form draws itself. The library follows both without end.
fn pages_are_finite(document: &Document) -> bool {
    document.get_pages().values().all(|&page| {
        let contents = document.get_page_contents(page);
        let once: HashSet<_> = contents.iter().collect();
        once.len() == contents.len()
            && document.get_page_resources(page).is_ok_and(|(direct, inherited)| {
                let inherited = inherited.iter().filter_map(|&id| document.get_dictionary(id).ok());
                let mut seen = HashSet::new();
                direct
                    .into_iter()
                    .chain(inherited)
                    .all(|resources| forms_end(document, resources, &mut Vec::new(), &mut seen))
            })
    })
}

/// `above`: the forms that lead here. `seen`: forms known to end.
fn forms_end(
    document: &Document,
    resources: &Dictionary,
    above: &mut Vec<ObjectId>,
    seen: &mut HashSet<ObjectId>,
) -> bool {
    let Some(objects) = resources.get(b"XObject").ok().and_then(|object| dictionary(document, object)) else {
        return true;
    };
    objects.iter().all(|(_, object)| {
        let Ok(id) = object.as_reference() else { return true };
        if above.contains(&id) || above.len() >= MAX_FORMS {
            return false;
        }
        let Ok(Object::Stream(form)) = document.get_object(id) else { return true };
        if seen.contains(&id) {
            return true;
        }
        // A form without resources of its own uses those of whoever draws it, itself among them.
        let inner = match form.dict.get(b"Resources") {
            Ok(own) => dictionary(document, own),
            Err(_) if is_form(&form.dict) && draws(form) => return false,
            Err(_) => None,
        };
        above.push(id);
        let ends = inner.is_none_or(|inner| forms_end(document, inner, above, seen));
        above.pop();
        seen.insert(id);
        ends
    })
}

fn is_form(dictionary: &Dictionary) -> bool {
    dictionary.get(b"Subtype").ok().and_then(|kind| kind.as_name().ok()) != Some(b"Image")
}

fn draws(form: &pdf_extract::Stream) -> bool {
    let content = form.decompressed_content().unwrap_or_else(|_| form.content.clone());
    memchr::memmem::find(&content, b"Do").is_some()
}

fn dictionary<'a>(document: &'a Document, object: &'a Object) -> Option<&'a Dictionary> {
    document.dereference(object).ok()?.1.as_dict().ok()
}

/// Ends the reading when it takes too long or gives too much.
struct Bounded<'a> {
    inner: PlainTextOutput<&'a mut String>,
    until: Instant,
    characters: usize,
    page: u32,
}

impl Bounded<'_> {
    fn check(&mut self, more: usize) -> Result<(), OutputError> {
        self.characters += more;
        if self.characters > MAX_TEXT || Instant::now() > self.until {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        Ok(())
    }
}

impl OutputDev for Bounded<'_> {
    fn begin_page(
        &mut self,
        page: u32,
        media: &MediaBox,
        art: Option<(f64, f64, f64, f64)>,
    ) -> Result<(), OutputError> {
        self.check(1)?;
        self.page += 1;
        self.inner.begin_page(page, media, art)
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        // The library's own output runs pages together.
        self.inner.output_character(&Transform::identity(), 0.0, 0.0, 0.0, "\u{c}")?;
        self.inner.end_page()
    }

    fn output_character(
        &mut self,
        place: &Transform,
        width: f64,
        spacing: f64,
        size: f64,
        text: &str,
    ) -> Result<(), OutputError> {
        self.check(text.len())?;
        self.inner.output_character(place, width, spacing, size, text)
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        self.check(0)?;
        self.inner.begin_word()
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        self.inner.end_word()
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        self.inner.end_line()
    }
}
