//! The walk over the envelope, `params` and `_meta`. One pass; what is not asked for is only validated.

use std::borrow::Cow;

use super::{Body, Duplicate, Message, Slots};
use crate::mcp::json::{
    Error, Raw,
    edit::Slot,
    hash::FoldState,
    keys::Keys,
    scan::{self, Scanner, Visit},
    text,
};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Prefix of MCP's own keys in `_meta`.
const OWN: &[u8] = b"io.modelcontextprotocol/";

pub(super) fn body(bytes: &[u8]) -> Result<Body<'_>, Error> {
    let (bom, bytes) = bytes.strip_prefix(BOM).map_or((false, bytes), |rest| (true, rest));
    let shift = |e: Error| Error { offset: e.offset + if bom { BOM.len() } else { 0 }, ..e };
    document(bytes, bom).map_err(shift)
}

fn document(bytes: &[u8], bom: bool) -> Result<Body<'_>, Error> {
    let mut scanner = Scanner::new(scan::utf8(bytes)?);
    let body = match scanner.peek() {
        Some(b'{') => {
            let mut message = Box::new(Message { bom, ..Message::default() });
            message.read(&mut scanner)?;
            message.deepest = scanner.deepest();
            Body::Object(message)
        }
        Some(b'[') => scanner.value(0).map(|_| Body::Batch)?,
        _ => scanner.value(0).map(|_| Body::Scalar)?,
    };
    scanner.end()?;
    Ok(body)
}

/// Notices text that may read as something else.
struct Readable<'f>(&'f mut bool);

impl Visit for Readable<'_> {
    #[inline]
    fn text(&mut self, bytes: &[u8], from: usize, to: usize) {
        *self.0 = *self.0 || text::may_read(bytes, from, to);
    }
}

impl Slots {
    /// Notes where the member `key` stands, if that matters.
    fn note(&mut self, key: &[u8], slot: Slot) -> bool {
        let place = match key {
            b"name" => &mut self.name,
            b"arguments" => &mut self.arguments,
            b"_meta" => &mut self.meta,
            b"cursor" => &mut self.cursor,
            _ => return false,
        };
        *place = Some(slot);
        true
    }

    /// Notes where the member after the last one noted starts.
    fn follow(&mut self, next: Slot) {
        let all = [&mut self.name, &mut self.arguments, &mut self.meta, &mut self.cursor];
        if let Some(last) = all.into_iter().flatten().find(|s| s.index + 1 == next.index) {
            last.after = next.start;
        }
    }
}

/// A name's decoded bytes.
#[inline]
fn key<'a>(name: &Raw<'a>, plain: bool) -> Cow<'a, [u8]> {
    let bytes = name.bytes();
    match bytes.get(1..bytes.len() - 1) {
        Some(inner) if plain => Cow::Borrowed(inner),
        _ => Cow::Owned(name.as_str().unwrap_or_default().into_owned().into_bytes()),
    }
}

/// Whether a name that is none of ours becomes one of `ours` when case is ignored, as some parsers do (Go's
/// among them, for which the long s, U+017F, is an s too).
fn looks_like(name: &[u8], ours: &[&str]) -> bool {
    if name.is_ascii() {
        return ours.iter().any(|our| name.eq_ignore_ascii_case(our.as_bytes()));
    }
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let upper = || name.chars().flat_map(char::to_uppercase);
    ours.iter().any(|our| upper().eq(our.chars().flat_map(char::to_uppercase)))
}

impl<'a> Message<'a> {
    fn read(&mut self, scanner: &mut Scanner<'a>) -> Result<(), Error> {
        let (mut keys, state) = (Keys::default(), FoldState::default());
        self.envelope = scanner.object(0, |scanner, name, plain| {
            let key = key(&name, plain);
            keys.add(state, &key);
            self.member(scanner, &key)?;
            self.last_end = Some(scanner.offset());
            Ok(())
        })?;
        if keys.repeat_in(self.envelope) {
            self.duplicate = Some(Duplicate::Envelope);
        }
        if let (Some("initialize"), Some(params)) = (self.method.as_deref(), self.params)
            && let Some(info) = params.get("clientInfo")
        {
            self.client(info);
        }
        Ok(())
    }

    fn member(&mut self, scanner: &mut Scanner<'a>, key: &[u8]) -> Result<(), Error> {
        if key == b"params" {
            self.params =
                Some(if scanner.peek() == Some(b'{') { self.params(scanner)? } else { scanner.value(1)? });
            return Ok(());
        }
        let value = scanner.value(1)?;
        match key {
            b"method" => (self.method, self.method_raw) = (value.as_str(), Some(value)),
            b"jsonrpc" => self.jsonrpc = Some(value),
            b"id" => self.id_raw = Some(value),
            b"result" => self.has_result = true,
            b"error" => self.has_error = true,
            other => self.has_lookalike |= looks_like(other, &["method", "id", "params"]),
        }
        Ok(())
    }

    fn params(&mut self, scanner: &mut Scanner<'a>) -> Result<Raw<'a>, Error> {
        let (mut keys, state) = (Keys::default(), FoldState::default());
        let (mut slot, mut waits) = (Slot::default(), false);
        let params = scanner.object(1, |scanner, name, plain| {
            let key = key(&name, plain);
            keys.add(state, &key);
            slot.start = name.start();
            if waits {
                self.slots.follow(slot);
            }
            self.param(scanner, &key)?;
            (slot.end, slot.after) = (scanner.offset(), scanner.offset());
            waits = self.slots.note(&key, slot);
            (slot.before, slot.index) = (slot.end, slot.index + 1);
            Ok(())
        })?;
        self.params_last_end = (slot.index > 0).then_some(slot.before);
        if keys.repeat_in(params) {
            self.duplicate.get_or_insert(Duplicate::Params);
        }
        Ok(params)
    }

    fn param(&mut self, scanner: &mut Scanner<'a>, key: &[u8]) -> Result<(), Error> {
        if key == b"_meta" && scanner.peek() == Some(b'{') {
            self.meta = Some(self.meta(scanner)?);
            return Ok(());
        }
        let value = scanner.visited(2, &mut Readable(&mut self.readable))?;
        match key {
            b"name" => (self.name, self.name_raw) = (value.as_str(), Some(value)),
            b"uri" => (self.uri, self.uri_raw) = (value.as_str(), Some(value)),
            b"taskId" => (self.task_id, self.task_id_raw) = (value.as_str(), Some(value)),
            b"arguments" => self.arguments = Some(value),
            b"cursor" => self.cursor = Some(value),
            b"requestState" => self.request_state = Some(value),
            b"protocolVersion" => self.requested_version = value.as_str(),
            b"_meta" => self.meta = Some(value),
            other => self.has_lookalike_param |= looks_like(other, &["name", "arguments"]),
        }
        Ok(())
    }

    fn meta(&mut self, scanner: &mut Scanner<'a>) -> Result<Raw<'a>, Error> {
        let (mut keys, state) = (Keys::default(), FoldState::default());
        let meta = scanner.object(2, |scanner, name, plain| {
            let key = key(&name, plain);
            keys.add(state, &key);
            let value = scanner.value(3)?;
            self.meta_entry(&key, value);
            Ok(())
        })?;
        if keys.repeat_in(meta) {
            self.duplicate.get_or_insert(Duplicate::Meta);
        }
        Ok(meta)
    }

    fn meta_entry(&mut self, key: &[u8], value: Raw<'a>) {
        match key {
            b"traceparent" => self.traceparent = value.as_str(),
            b"tracestate" => self.tracestate = value.as_str(),
            b"progressToken" => self.progress_token = Some(value),
            _ => match key.strip_prefix(OWN) {
                Some(b"protocolVersion") => {
                    (self.protocol_version, self.has_protocol_version) = (value.as_str(), true);
                }
                Some(b"clientCapabilities") => self.client_capabilities = Some(value).filter(Raw::is_object),
                Some(b"clientInfo") => self.client(value),
                _ => {}
            },
        }
    }

    fn client(&mut self, info: Raw<'a>) {
        let text = |key| info.get(key).and_then(|v: Raw<'a>| v.as_str());
        let (name, version): (Option<Cow<'a, str>>, _) = (text("name"), text("version"));
        self.client_name = name.or(self.client_name.take());
        self.client_version = version.or(self.client_version.take());
    }
}
