//! How an answer is cut makes no difference to what is learnt from it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use smartgate::mcp::response::{Format, Keep, Observed, ResponseScanner, Seen};

fn read<'a>(format: Format, chunks: impl Iterator<Item = &'a [u8]>) -> (Seen, Observed) {
    let mut scanner = ResponseScanner::new(format, Keep::Bytes(16), Some("1"));
    let mut seen = Seen::default();
    chunks.for_each(|chunk| seen = scanner.feed(chunk));
    (seen, scanner.finish())
}

fuzz_target!(|input: (u8, &[u8])| {
    let (size, answer) = input;
    for format in [Format::Json, Format::Sse] {
        let whole = read(format, [answer].into_iter());
        assert_eq!(read(format, answer.chunks(usize::from(size) + 1)), whole);
        assert_eq!(read(format, answer.chunks(1)), whole);
    }
});
