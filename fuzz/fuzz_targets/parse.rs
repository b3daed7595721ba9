//! The parser accepts what a full JSON parser accepts, nesting apart.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use smartgate::mcp::message::{Body, ParseError, parse};

fuzz_target!(|body: &[u8]| {
    let json = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let valid = serde_json::from_slice::<&RawValue>(json).is_ok();
    match parse(body) {
        Ok(Body::Object(message)) => {
            assert!(valid);
            let _ = (message.id(), message.kind(), message.refusal(false));
        }
        Ok(_) => assert!(valid),
        Err(ParseError::NotJson { offset }) => assert!(!valid && offset <= body.len()),
        Err(ParseError::TooDeep { offset }) => assert!(matches!(body[offset], b'[' | b'{')),
    }
});
