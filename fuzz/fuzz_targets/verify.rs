//! No journal makes `verify` stumble, and how it is cut into blocks makes no difference. Lines get the hashes that they
//! would need, so that what comes after the hash is reached too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};
use smartgate::audit::verify::{Checks, bytes};

/// The lines with their own hashes, each `prev` taken from the line before where there is a place for it.
fn chained(text: &[u8]) -> Vec<u8> {
    let (mut out, mut prev) = (Vec::new(), "0".repeat(64));
    for line in text.split(|b| *b == b'\n') {
        let mut line = line.to_vec();
        line.extend_from_slice(format!(",\"prev\":\"{prev}\"").as_bytes());
        prev = Sha256::digest(&line).iter().map(|b| format!("{b:02x}")).collect();
        out.extend_from_slice(&line);
        out.extend_from_slice(format!(",\"hash\":\"{prev}\"}}\n").as_bytes());
    }
    out
}

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (block, mend, text) = input;
    let journal = if mend { chained(text) } else { text.to_vec() };
    let checks = Checks::default();
    let told = |block| bytes(&journal, block, &checks).map_err(|fault| fault.to_string());
    assert_eq!(told(usize::from(block) + 1), told(1 << 20));
});
