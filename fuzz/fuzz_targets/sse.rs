//! How a stream is cut makes no difference to its events. The first bytes say where to cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use smartgate::mcp::sse::{Scanner, frame};

/// Data, id and name of each event, and whether it was too long.
type Events = Vec<(Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>, bool)>;

fn read<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Events {
    let (mut scanner, mut events) = (Scanner::new(64), Events::new());
    for chunk in chunks {
        scanner.feed(chunk, |e| {
            assert!(e.data.len() <= 64);
            events.push((
                e.data.to_vec(),
                e.id.map(<[u8]>::to_vec),
                e.event.map(<[u8]>::to_vec),
                e.oversized,
            ));
        });
    }
    events
}

fuzz_target!(|input: (u8, &[u8])| {
    let (size, stream) = input;
    let whole = read([stream].into_iter());
    assert_eq!(read(stream.chunks(usize::from(size) + 1)), whole);
    assert_eq!(read(stream.chunks(1)), whole);
    assert_eq!(read([&frame(stream)[..]].into_iter()).len(), 1);
});
