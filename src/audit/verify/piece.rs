//! One block of lines: each checked by itself and against the one before it in the block. Owns what makes a line good.
//! Invariant: a piece says of its lines all that is needed to join it to the piece before.

use std::borrow::Cow;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{
    Position,
    blocks::Block,
    held::{Cursor, Held},
};
use crate::{
    audit::{
        chain::STOP,
        line::is_plain,
        tail::{ENDING, stated_hash},
        text,
    },
    signing::{PublicKey, Statement},
};

/// What every line is checked with.
pub(super) struct Rules<'a> {
    pub(super) keys: &'a [PublicKey],
    pub(super) held: &'a Held,
}

/// What the check reads of a line.
#[derive(Deserialize)]
struct Line<'a> {
    v: u64,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    boot: Cow<'a, str>,
    seq: u64,
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(default)]
    lost: u64,
    #[serde(borrow)]
    prev: Cow<'a, str>,
    records: Option<u64>,
    reason: Option<Cow<'a, str>>,
    key: Option<Cow<'a, str>>,
    signature: Option<Cow<'a, str>>,
}

/// How a line begins what follows it.
pub(super) struct Joint {
    pub(super) prev: [u8; 64],
    pub(super) boot: String,
    pub(super) seq: u64,
    lost: u64,
    pub(super) is_start: bool,
}

/// Where a line leaves the chain.
pub(super) struct End {
    pub(super) position: Position,
    pub(super) hash: [u8; 64],
}

/// A line that decides about more than itself; `line` counts from 1 in the block.
pub(super) enum Event {
    Start { line: u64, boot: String, before: Option<u64> },
    Checkpoint { line: u64, position: Position, is_stop: bool, signed: bool },
}

/// What was found in a block.
pub(super) struct Piece {
    pub(super) source: usize,
    pub(super) lines: u64,
    pub(super) lost: u64,
    pub(super) first: Option<Joint>,
    pub(super) last: Option<End>,
    pub(super) events: Vec<Event>,
    /// The line after the good ones, and what is wrong with it.
    pub(super) fault: Option<String>,
    pub(super) torn: bool,
}

impl Piece {
    pub(super) fn check(block: Block, rules: &Rules<'_>) -> Self {
        let mut new = Self {
            source: block.source,
            lines: 0,
            lost: 0,
            first: None,
            last: None,
            events: Vec::new(),
            fault: None,
            torn: block.torn,
        };
        if block.torn {
            return new;
        }
        let mut cursor = Cursor::new(rules.held);
        let mut from = 0;
        for end in memchr::memchr_iter(b'\n', &block.bytes) {
            if let Err(what) = new.line(&block.bytes[from..end], rules, &mut cursor) {
                new.fault = Some(what);
                break;
            }
            from = end + 1;
        }
        new
    }

    pub(super) fn is_good(&self) -> bool {
        self.fault.is_none()
    }

    fn line(&mut self, text: &[u8], rules: &Rules<'_>, cursor: &mut Cursor<'_>) -> Result<(), String> {
        let hash = stated_hash(text).ok_or("not a record: it does not end in a hash")?;
        let covered = &text[..text.len() - ENDING];
        if text::hex_of(&Sha256::digest(covered).into()) != hash {
            return Err("the line was changed: it does not match its hash".into());
        }
        let json = std::str::from_utf8(text).ok().filter(|json| is_plain(json, 0));
        let json = json.ok_or("not a record: not JSON, nested too deep, or with a member twice")?;
        let line: Line<'_> = serde_json::from_str(json).map_err(|e| format!("not a record: {e}"))?;
        let prev = well_formed(&line)?;
        let joint = Joint {
            prev,
            boot: String::new(),
            seq: line.seq,
            lost: line.lost,
            is_start: line.kind == "start",
        };
        if let Some(last) = &self.last {
            follows(last, &joint, &line.boot)?;
        }
        let signed = signature(&line, rules.keys)?;
        self.lines += 1;
        self.note(&line, signed);
        cursor.see(&line.boot, line.seq, &hash);
        match &mut self.last {
            Some(last) => {
                if last.position.boot != line.boot {
                    line.boot.as_ref().clone_into(&mut last.position.boot);
                }
                (last.position.seq, last.hash) = (line.seq, hash);
            }
            None => {
                let position = Position { boot: line.boot.to_string(), seq: line.seq };
                self.last = Some(End { position, hash });
                self.first = Some(Joint { boot: line.boot.to_string(), ..joint });
            }
        }
        self.lost = self.lost.saturating_add(line.lost);
        Ok(())
    }

    fn note(&mut self, line: &Line<'_>, signed: bool) {
        let number = self.lines;
        match line.kind.as_ref() {
            "start" => {
                let before = self.last.as_ref().map(|l| l.position.seq);
                self.events.push(Event::Start { line: number, boot: line.boot.to_string(), before });
            }
            "checkpoint" => {
                let position = Position { boot: line.boot.to_string(), seq: line.seq };
                let is_stop = line.reason.as_deref() == Some(STOP);
                self.events.push(Event::Checkpoint { line: number, position, is_stop, signed });
            }
            _ => {}
        }
    }
}

fn well_formed(line: &Line<'_>) -> Result<[u8; 64], String> {
    if line.v != 1 {
        return Err(format!("records of version {} are not in this version", line.v));
    }
    if (line.kind == "start") != (line.seq == 0) {
        return Err("`start` records, and no others, have `seq` 0".into());
    }
    let prev = <[u8; 64]>::try_from(line.prev.as_bytes()).ok();
    prev.filter(|p| p.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
        .ok_or_else(|| "not a record: `prev` is no hash".into())
}

/// Whether a line may come after another.
///
/// # Errors
/// Why not.
pub(super) fn follows(last: &End, line: &Joint, boot: &str) -> Result<(), String> {
    if line.prev != last.hash {
        return Err("`prev` is not the hash of the line before: lines are missing or moved".into());
    }
    if last.position.boot != boot {
        let what = "another boot without its `start` record";
        return if line.is_start { Ok(()) } else { Err(what.into()) };
    }
    let seq = last.position.seq;
    let expected = seq.checked_add(1).and_then(|s| s.checked_add(line.lost));
    if expected == Some(line.seq) {
        Ok(())
    } else {
        Err(format!("`seq` is {} after {seq}: records are missing or doubled", line.seq))
    }
}

/// Whether it is a checkpoint with a signature; wrong ones are faults if there are keys to check them with.
fn signature(line: &Line<'_>, keys: &[PublicKey]) -> Result<bool, String> {
    if line.kind != "checkpoint" {
        return Ok(false);
    }
    let (Some(records), Some(reason)) = (line.records, line.reason.as_deref()) else {
        return Err("not a record: a checkpoint without `records` or `reason`".into());
    };
    let (Some(id), Some(signature)) = (line.key.as_deref(), line.signature.as_deref()) else {
        return Ok(false);
    };
    if keys.is_empty() {
        return Ok(true);
    }
    let statement =
        Statement { boot: &line.boot, seq: line.seq, time: &line.time, records, reason, prev: &line.prev };
    match keys.iter().find(|key| key.id() == id) {
        None => Err(format!("a checkpoint signed with the key {id:.16}, which was not given")),
        Some(key) if key.confirms(statement, signature) => Ok(true),
        Some(_) => Err("a checkpoint whose signature is not the key's".into()),
    }
}
