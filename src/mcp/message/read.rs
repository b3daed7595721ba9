//! The walk over the envelope, `params` and `_meta`. One pass; what is not asked for is only validated.

use std::borrow::Cow;

use super::{Body, Duplicate, Message};
use crate::mcp::json::{
    Error, Raw, Type,
    keys::Keys,
    scan::{self, Scanner},
};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Prefix of MCP's own keys in `_meta`.
const OWN: &str = "io.modelcontextprotocol/";

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
            Body::Object(message)
        }
        Some(b'[') => scanner.value(0).map(|_| Body::Batch)?,
        _ => scanner.value(0).map(|_| Body::Scalar)?,
    };
    scanner.end()?;
    Ok(body)
}

/// Remembers the names of one object and marks the message when one comes twice.
struct Once<'a> {
    keys: Keys<'a>,
    place: Duplicate,
}

impl<'a> Once<'a> {
    fn new(place: Duplicate) -> Self {
        Self { keys: Keys::default(), place }
    }

    fn see(&mut self, name: &Raw<'a>, mark: &mut Option<Duplicate>) {
        if !self.keys.insert(name) {
            mark.get_or_insert(self.place);
        }
    }
}

impl<'a> Message<'a> {
    fn read(&mut self, scanner: &mut Scanner<'a>) -> Result<(), Error> {
        let mut once = Once::new(Duplicate::Envelope);
        self.envelope = scanner.object(0, |scanner, name| {
            once.see(&name, &mut self.duplicate);
            self.member(scanner, name)?;
            self.last_end = Some(scanner.offset());
            Ok(())
        })?;
        if let (Some("initialize"), Some(params)) = (self.method.as_deref(), self.params)
            && let Some(info) = params.get("clientInfo")
        {
            self.client(info);
        }
        Ok(())
    }

    fn member(&mut self, scanner: &mut Scanner<'a>, name: Raw<'a>) -> Result<(), Error> {
        let key = name.as_str().unwrap_or_default();
        if key == "params" {
            self.params =
                Some(if scanner.peek() == Some(b'{') { self.params(scanner)? } else { scanner.value(1)? });
            return Ok(());
        }
        let value = scanner.value(1)?;
        match &*key {
            "method" => (self.method, self.method_raw) = (value.as_str(), Some(value)),
            "jsonrpc" => self.jsonrpc = Some(value),
            "id" => self.id_raw = Some(value),
            "result" => self.has_result = true,
            "error" => self.has_error = true,
            _ => {}
        }
        Ok(())
    }

    fn params(&mut self, scanner: &mut Scanner<'a>) -> Result<Raw<'a>, Error> {
        let mut once = Once::new(Duplicate::Params);
        scanner.object(1, |scanner, name| {
            once.see(&name, &mut self.duplicate);
            self.param(scanner, name)
        })
    }

    fn param(&mut self, scanner: &mut Scanner<'a>, name: Raw<'a>) -> Result<(), Error> {
        let key = name.as_str().unwrap_or_default();
        if key == "_meta" && scanner.peek() == Some(b'{') {
            self.meta = Some(self.meta(scanner)?);
            return Ok(());
        }
        let value = scanner.value(2)?;
        match &*key {
            "name" => (self.name, self.name_raw) = (value.as_str(), Some(value)),
            "uri" => self.uri = value.as_str(),
            "taskId" => self.task_id = value.as_str(),
            "arguments" => self.arguments = Some(value),
            "cursor" => self.cursor = Some(value),
            "protocolVersion" => self.requested_version = value.as_str(),
            "_meta" => self.meta = Some(value),
            _ => {}
        }
        Ok(())
    }

    fn meta(&mut self, scanner: &mut Scanner<'a>) -> Result<Raw<'a>, Error> {
        let mut once = Once::new(Duplicate::Meta);
        scanner.object(2, |scanner, name| {
            once.see(&name, &mut self.duplicate);
            let value = scanner.value(3)?;
            self.meta_entry(&name.as_str().unwrap_or_default(), value);
            Ok(())
        })
    }

    fn meta_entry(&mut self, key: &str, value: Raw<'a>) {
        match key {
            "traceparent" => self.traceparent = value.as_str(),
            "tracestate" => self.tracestate = value.as_str(),
            _ => match key.strip_prefix(OWN) {
                Some("protocolVersion") => {
                    (self.protocol_version, self.has_protocol_version) = (value.as_str(), true);
                }
                Some("clientCapabilities") => self.has_client_capabilities = value.kind() == Type::Object,
                Some("clientInfo") => self.client(value),
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
