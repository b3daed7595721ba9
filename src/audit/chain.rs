//! The hash chain: which lines there are, and what joins them. Every line of the journal goes through it, in order.
//! Invariant: a line is one line of JSON; `hash` is its last member and covers every byte before `,"hash":`.

use std::{ops::Range, time::SystemTime};

use sha2::{Digest, Sha256};

use super::{
    line::{self, optional, whole},
    record::Record,
    redact::Shown,
    text::{self, Clock},
};
use crate::signing::{Signer, Statement};

/// `prev` of the very first record.
pub(super) const GENESIS: [u8; 64] = [b'0'; 64];

/// What a line got that the record did not have: its place in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) seq: u64,
    /// Hex SHA-256 of the line.
    pub(super) hash: [u8; 64],
}

/// The end of the chain. Every line goes through it, in order.
#[derive(Debug)]
pub(super) struct Chain {
    boot: String,
    seq: u64,
    /// Lines of this boot.
    records: u64,
    prev: [u8; 64],
    clock: Clock,
}

/// Why a checkpoint is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The gateway has begun.
    Start,
    /// Its time has come, or many records have.
    Due,
    /// A new segment was begun.
    Rotation,
    /// The gateway ends; nothing of this boot comes after it.
    Stop,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Due => "due",
            Self::Rotation => "rotation",
            Self::Stop => STOP,
        }
    }
}

/// The reason of a boot's last line.
pub(super) const STOP: &str = "stop";

/// What a `start` record says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    /// Bytes of a torn line that were cut off the journal's end.
    pub(super) healed_bytes: u64,
}

impl Chain {
    /// Continues after the line whose hash is `prev`, in a boot of its own.
    pub(super) fn new(prev: [u8; 64]) -> Self {
        Self { boot: ulid::Ulid::generate().to_string(), seq: 0, records: 0, prev, clock: Clock::default() }
    }

    /// The boot's name: a ULID.
    pub(super) fn boot(&self) -> &str {
        &self.boot
    }

    /// Appends the line that opens a boot, with `seq` 0.
    pub(super) fn start(&mut self, out: &mut Vec<u8>, start: Start) {
        let from = out.len();
        self.open(out, "start", SystemTime::now());
        out.extend_from_slice(b",\"version\":");
        text::string(out, env!("CARGO_PKG_VERSION"));
        out.extend_from_slice(b",\"pid\":");
        text::number(out, std::process::id());
        out.extend_from_slice(b",\"healed_bytes\":");
        text::number(out, start.healed_bytes);
        self.close(out, from);
    }

    /// Appends the line of a call. `lost` records before it have taken their numbers but left no line.
    pub(super) fn call(
        &mut self,
        out: &mut Vec<u8>,
        record: &Record,
        payloads: &[Shown<'_>; 2],
        lost: u64,
    ) -> Place {
        let from = out.len();
        self.seq += lost;
        self.open(out, "call", record.time);
        line::call(out, record, payloads, lost);
        self.close(out, from)
    }

    /// Appends a line that says nothing but that it is there.
    pub(super) fn selftest(&mut self, out: &mut Vec<u8>) -> Place {
        let from = out.len();
        self.open(out, "selftest", SystemTime::now());
        self.close(out, from)
    }

    /// Appends a checkpoint: the end of the chain so far, signed if there is a key.
    pub(super) fn checkpoint(&mut self, out: &mut Vec<u8>, reason: Reason, signer: Option<&Signer>) -> Place {
        let from = out.len();
        let time = self.open(out, "checkpoint", SystemTime::now());
        let time = String::from_utf8_lossy(&out[time]).into_owned();
        whole(out, b",\"records\":", Some(self.records));
        optional(out, b",\"reason\":", Some(reason.as_str()));
        let signature = signer.map(|signer| {
            signer.sign(Statement {
                boot: &self.boot,
                seq: self.seq,
                time: &time,
                records: self.records,
                reason: reason.as_str(),
                prev: &String::from_utf8_lossy(&self.prev),
            })
        });
        optional(out, b",\"key\":", signer.map(Signer::id));
        optional(out, b",\"signature\":", signature.as_deref());
        self.close(out, from)
    }

    /// Where the time stands in `out` is given back.
    fn open(&mut self, out: &mut Vec<u8>, kind: &str, time: SystemTime) -> Range<usize> {
        out.extend_from_slice(b"{\"v\":1,\"kind\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\",\"boot\":\"");
        out.extend_from_slice(self.boot.as_bytes());
        out.extend_from_slice(b"\",\"seq\":");
        text::number(out, self.seq);
        out.extend_from_slice(b",\"time\":\"");
        let from = out.len();
        self.clock.write(out, time);
        let written = from..out.len();
        out.push(b'"');
        written
    }

    fn close(&mut self, out: &mut Vec<u8>, from: usize) -> Place {
        out.extend_from_slice(b",\"prev\":\"");
        out.extend_from_slice(&self.prev);
        out.push(b'"');
        let hash = text::hex_of(&Sha256::digest(&out[from..]).into());
        out.extend_from_slice(b",\"hash\":\"");
        out.extend_from_slice(&hash);
        out.extend_from_slice(b"\"}\n");
        let place = Place { seq: self.seq, hash };
        self.prev = hash;
        self.seq += 1;
        self.records += 1;
        place
    }
}
