//! The few pieces of protobuf's wire format (protobuf.dev, "Encoding") that trace export needs, appended to a
//! buffer without intermediate messages. Knows nothing of spans. Invariant: lengths always match what follows.

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_byte(value) | 0x80);
        value >>= 7;
    }
    out.push(low_byte(value));
}

fn low_byte(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

fn key(out: &mut Vec<u8>, field: u64, wire: u64) {
    varint(out, field << 3 | wire);
}

/// An integer field: `uint64`, `int64` (two's complement), `bool` or an enum.
pub(super) fn integer(out: &mut Vec<u8>, field: u64, value: u64) {
    key(out, field, VARINT);
    varint(out, value);
}

/// A `fixed64` or `double` field, from its bits.
pub(super) fn fixed64(out: &mut Vec<u8>, field: u64, bits: u64) {
    key(out, field, FIXED64);
    out.extend_from_slice(&bits.to_le_bytes());
}

/// A `fixed32` field.
pub(super) fn fixed32(out: &mut Vec<u8>, field: u64, value: u32) {
    key(out, field, FIXED32);
    out.extend_from_slice(&value.to_le_bytes());
}

/// A `string` or `bytes` field.
pub(super) fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    head(out, field, value.len());
    out.extend_from_slice(value);
}

/// Field and length of `length` bytes that the caller appends.
pub(super) fn head(out: &mut Vec<u8>, field: u64, length: usize) {
    key(out, field, BYTES);
    varint(out, u64::try_from(length).unwrap_or(u64::MAX));
}

/// A field that holds a message, written by `body`. One byte is set aside for its length; a message over 127
/// bytes is moved up by the rest.
pub(super) fn message(out: &mut Vec<u8>, field: u64, body: impl FnOnce(&mut Vec<u8>)) {
    key(out, field, BYTES);
    let at = out.len();
    out.push(0);
    body(out);
    let mut length = u64::try_from(out.len() - at - 1).unwrap_or(u64::MAX);
    let mut more = 0;
    while length >> (7 * (more + 1)) > 0 {
        more += 1;
    }
    if more > 0 {
        let end = out.len();
        out.resize(end + more, 0);
        out.copy_within(at + 1..end, at + 1 + more);
    }
    for byte in &mut out[at..at + more] {
        *byte = low_byte(length) | 0x80;
        length >>= 7;
    }
    out[at + more] = low_byte(length);
}

/// One field of a message that was received.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Integer(u64),
    Bytes(&'a [u8]),
    Other,
}

/// Takes the next field and its number off a received message; `None` at its end and where it is malformed.
pub(super) fn next<'a>(message: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let key = read_varint(message)?;
    let field = match key & 7 {
        VARINT => Field::Integer(read_varint(message)?),
        BYTES => {
            let length = usize::try_from(read_varint(message)?).ok()?;
            Field::Bytes(take(message, length)?)
        }
        FIXED64 => take(message, 8).map(|_| Field::Other)?,
        FIXED32 => take(message, 4).map(|_| Field::Other)?,
        _ => return None,
    };
    Some((key >> 3, field))
}

fn take<'a>(message: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some(taken)
}

fn read_varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *take(message, 1)?.first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn matches_the_documented_examples() {
        let mut out = Vec::new();
        integer(&mut out, 1, 150);
        assert_eq!(out, [0x08, 0x96, 0x01]);
        out.clear();
        bytes(&mut out, 2, b"testing");
        assert_eq!(out, [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
    }

    proptest! {
        #[test]
        fn messages_of_any_length_come_back(value: u64, fill: u8, length in 0usize..3_000_000) {
            let inner = vec![fill; length];
            let mut out = vec![7];
            message(&mut out, 3, |out| {
                integer(out, 1, value);
                message(out, 2, |out| out.extend_from_slice(&inner));
            });
            let mut rest = &out[1..];
            let Some((3, Field::Bytes(mut outer))) = next(&mut rest) else { panic!("no message") };
            prop_assert!(rest.is_empty());
            prop_assert_eq!(next(&mut outer), Some((1, Field::Integer(value))));
            prop_assert_eq!(next(&mut outer), Some((2, Field::Bytes(&inner))));
            prop_assert_eq!(next(&mut outer), None);
        }

        #[test]
        fn reading_arbitrary_bytes_ends(junk in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut rest = &junk[..];
            while next(&mut rest).is_some() {}
        }
    }
}
