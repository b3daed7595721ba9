//! Messages on a pipe: one JSON text a line (stdio transport, every revision). Owns the bounds on a line.
//!
//! Invariant: whatever comes, at most the limit is held of one line, and a line that is too long ends none but itself.

use bytes::Bytes;
use tokio::io::{self, AsyncBufReadExt, AsyncRead, BufReader};

/// Longest line that is taken for a message, in bytes. Tool results with whole files in base64 stay below it.
pub(super) const MAX_LINE: usize = 64 * 1024 * 1024;
/// Read at once: a pipe holds as much.
const CHUNK: usize = 64 * 1024;
/// Kept of each end of a line that is too long: an id stands at one of them.
const END: usize = 256;

/// What was read.
#[derive(Debug)]
pub(super) enum Line {
    /// A line without its end.
    Whole(Bytes),
    /// The ends of one that is longer than the limit.
    Long(Long),
}

/// A line of which only the ends were kept.
#[derive(Debug, Default)]
pub(super) struct Long {
    /// Its first bytes.
    pub(super) head: Vec<u8>,
    /// Its last bytes.
    pub(super) tail: Vec<u8>,
    /// How long it was.
    pub(super) length: u64,
}

impl Line {
    /// Bytes of it, its end among them.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Whole(line) => line.len() as u64 + 1,
            Self::Long(long) => long.length + 1,
        }
    }
}

/// Reads lines.
#[derive(Debug)]
pub(super) struct Lines<R> {
    from: BufReader<R>,
    limit: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(from: R, limit: usize) -> Self {
        Self { from: BufReader::with_capacity(CHUNK, from), limit }
    }

    /// The next line; what comes after the last line end counts as one. `None` at the end.
    ///
    /// # Errors
    /// The pipe's.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        let mut line = Vec::new();
        let mut long: Option<Long> = None;
        loop {
            let chunk = self.from.fill_buf().await?;
            if chunk.is_empty() {
                let nothing = line.is_empty() && long.is_none();
                return Ok((!nothing).then(|| finish(line, long)));
            }
            let end = memchr::memchr(b'\n', chunk);
            let piece = &chunk[..end.unwrap_or(chunk.len())];
            match &mut long {
                Some(long) => long.add(piece),
                None if line.len() + piece.len() <= self.limit => line.extend_from_slice(piece),
                None => {
                    let mut begun = Long::default();
                    begun.add(&std::mem::take(&mut line));
                    begun.add(piece);
                    long = Some(begun);
                }
            }
            let taken = piece.len() + usize::from(end.is_some());
            self.from.consume(taken);
            if end.is_some() {
                return Ok(Some(finish(line, long)));
            }
        }
    }
}

fn finish(mut line: Vec<u8>, long: Option<Long>) -> Line {
    match long {
        Some(long) => Line::Long(long),
        None => {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            Line::Whole(line.into())
        }
    }
}

impl Long {
    fn add(&mut self, piece: &[u8]) {
        self.length += piece.len() as u64;
        let room = END.saturating_sub(self.head.len()).min(piece.len());
        self.head.extend_from_slice(&piece[..room]);
        self.tail.extend_from_slice(&piece[piece.len().saturating_sub(END)..]);
        self.tail.drain(..self.tail.len().saturating_sub(END));
    }

    /// The id of a response of this length, if it stands right at the start or right at the end, where the SDKs
    /// put it.
    pub(super) fn id(&self) -> Option<u64> {
        let squeezed = |bytes: &[u8]| -> Vec<u8> { bytes.iter().copied().filter(|b| *b != b' ').collect() };
        let head = squeezed(&self.head);
        let rest = head.strip_prefix(br#"{"jsonrpc":"2.0","#).or_else(|| head.strip_prefix(b"{"));
        let first = rest.and_then(|r| r.strip_prefix(br#""id":"#)).and_then(number);
        first.or_else(|| {
            let tail = squeezed(&self.tail);
            let tail = tail.strip_suffix(br#","jsonrpc":"2.0"}"#).or_else(|| tail.strip_suffix(b"}"))?;
            let at = tail.iter().rposition(|b| *b == b',')?;
            let digits = tail[at..].strip_prefix(br#","id":"#)?;
            number(digits).filter(|_| digits.iter().all(u8::is_ascii_digit))
        })
    }
}

/// The number at the start of a text.
fn number(text: &[u8]) -> Option<u64> {
    let end = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    std::str::from_utf8(&text[..end]).ok()?.parse().ok()
}

/// A message as a line. Line breaks in JSON stand between tokens only, where a space means the same.
pub(super) fn as_line(mut message: Vec<u8>) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &message).is_some() {
        for byte in message.iter_mut().filter(|b| matches!(**b, b'\n' | b'\r')) {
            *byte = b' ';
        }
    }
    message.push(b'\n');
    message.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn read(bytes: &[u8], limit: usize) -> Vec<Line> {
        let mut lines = Lines::new(bytes, limit);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(line);
        }
        all
    }

    fn whole(line: &Line) -> &[u8] {
        match line {
            Line::Whole(line) => line,
            Line::Long(long) => panic!("{} bytes are too long", long.length),
        }
    }

    #[tokio::test]
    async fn lines_end_with_lf_or_crlf_or_the_stream() {
        let lines = read(b"a\nb\r\n\nlast", 10).await;
        assert_eq!(lines.iter().map(whole).collect::<Vec<_>>(), [&b"a"[..], b"b", b"", b"last"]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_costs_only_itself() {
        let lines = read(b"ok\n0123456789x\nok", 10).await;
        let [first, Line::Long(long), last] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((whole(first), long.length, whole(last)), (&b"ok"[..], 11, &b"ok"[..]));
        assert_eq!((&long.head[..], &long.tail[..]), (&b"0123456789x"[..], &b"0123456789x"[..]));
    }

    #[test]
    fn the_id_of_a_long_answer_is_found_at_its_ends() {
        let id = |head: &str, tail: &str| Long { head: head.into(), tail: tail.into(), length: 0 }.id();
        assert_eq!(id(r#"{"jsonrpc": "2.0", "id": 7, "result": {"#, "x"), Some(7));
        assert_eq!(id(r#"{"id":12,"result""#, "x"), Some(12));
        assert_eq!(id(r#"{"result":{"id":3"#, r#"x"}]},"jsonrpc":"2.0","id":9}"#), Some(9));
        assert_eq!(id(r#"{"result":{"id":3"#, r#"x"}]},"id":9,"jsonrpc":"2.0"}"#), Some(9));
        assert_eq!(id(r#"{"result":{"id":3"#, r#"{"id":9}]}"#), None);
        assert_eq!(id("noise", "noise"), None);
    }

    proptest! {
        #[test]
        fn how_a_stream_is_cut_makes_no_difference(
            parts in proptest::collection::vec("[a-z\"{}]{0,40}", 1..20), limit in 1_usize..30,
        ) {
            let text = parts.join("\n") + "\n";
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let lines = runtime.block_on(read(text.as_bytes(), limit));
            prop_assert_eq!(lines.len(), parts.len());
            for (line, part) in lines.iter().zip(&parts) {
                match line {
                    Line::Whole(line) => prop_assert_eq!(&line[..], part.as_bytes()),
                    Line::Long(long) => {
                        prop_assert!(part.len() > limit);
                        prop_assert_eq!(long.length, part.len() as u64);
                    }
                }
            }
        }

        #[test]
        fn a_message_becomes_one_line_of_the_same_meaning(text in "[ \\n\\r\\t]{0,9}") {
            let message = format!("{{{text}\"a\"{text}:{text}[\"\\n\"]{text}}}");
            let line = as_line(message.clone().into_bytes());
            prop_assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
            let value = |t: &[u8]| serde_json::from_slice::<serde_json::Value>(t).unwrap();
            prop_assert_eq!(value(&line), value(message.as_bytes()));
        }
    }
}
