use proptest::prelude::*;

use super::{Scanner, frame};

/// (data, id, event, oversized) of each event.
type Seen = Vec<(String, Option<String>, Option<String>, bool)>;

fn read(limit: usize, chunks: &[&[u8]]) -> Seen {
    let mut scanner = Scanner::new(limit);
    let mut seen = Seen::new();
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    for chunk in chunks {
        scanner.feed(chunk, |e| seen.push((text(e.data), e.id.map(text), e.event.map(text), e.oversized)));
    }
    seen
}

fn data(stream: &str) -> Vec<String> {
    read(100, &[stream.as_bytes()]).into_iter().map(|e| e.0).collect()
}

#[test]
fn lines_end_with_cr_lf_or_both() {
    for end in ["\n", "\r", "\r\n"] {
        let stream = ["data: a", "data: b", "", ": note", "data:c", "", ""].join(end);
        assert_eq!(data(&stream), ["a\nb", "c"], "{end:?}");
    }
}

#[test]
fn one_space_after_the_colon_is_dropped_and_a_missing_colon_means_empty() {
    assert_eq!(data("data:  x \n\ndata\n\ndata:\ndata\n\n"), [" x ", "", "\n"]);
}

#[test]
fn a_byte_order_mark_is_passed_over_only_at_the_start() {
    assert_eq!(data("\u{feff}data: a\n\n\u{feff}data: b\n\n"), ["a"]);
    assert_eq!(read(9, &[b"\xef", b"\xbb", b"\xbfdata: a\n\n"]).len(), 1);
    assert_eq!(read(9, &[b"\xef\xbbdata: a\n\n"]), []);
}

#[test]
fn ids_and_names_are_told_and_last_for_one_event() {
    let seen =
        read(100, &[b"id: 1\nevent: message\nretry: 5\ndata: x\n\nid:\n\ndata: y\n\n: only a comment\n\n"]);
    let some = |s: &str| Some(s.to_owned());
    assert_eq!(
        seen,
        [
            ("x".into(), some("1"), some("message"), false),
            (String::new(), some(""), None, false),
            ("y".into(), None, None, false),
        ]
    );
}

#[test]
fn an_event_beyond_the_limit_is_flagged_and_the_stream_goes_on() {
    let seen = read(3, &[b"data: abcd\n\ndata: ab\ndata: c\n\ndata: abc\n\n"]);
    let flags: Vec<_> = seen.iter().map(|e| (e.0.as_str(), e.3)).collect();
    assert_eq!(flags, [("", true), ("", true), ("abc", false)]);
}

#[test]
fn an_event_cut_off_by_the_end_is_none() {
    assert_eq!(data("data: a\n"), Vec::<String>::new());
}

#[test]
fn a_framed_message_reads_back_with_its_line_breaks() {
    let framed = frame(b"{\n\"a\":\r\n1\r}");
    assert_eq!(framed, b"event: message\ndata: {\ndata: \"a\":\ndata: 1\ndata: }\n\n");
    assert_eq!(read(100, &[&framed])[0].0, "{\n\"a\":\n1\n}");
}

proptest! {
    #[test]
    fn cutting_a_stream_changes_nothing(
        stream in "(data|id|event|retry|:|x| |:|\r|\n|\r\n|\u{feff}|é|[a-c]){0,60}",
        cuts in prop::collection::vec(0usize..200, 0..8),
    ) {
        let bytes = stream.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        prop_assert_eq!(read(8, &chunks), read(8, &[bytes]));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..8)) {
        let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
        read(5, &chunks);
    }

    #[test]
    fn what_is_framed_is_one_event(message in "[a-z\r\n:]{0,30}") {
        let seen = read(1000, &[&frame(message.as_bytes())]);
        prop_assert_eq!(seen.len(), 1);
        prop_assert_eq!(seen[0].0.replace('\n', ""), message.replace(['\n', '\r'], ""));
    }
}
