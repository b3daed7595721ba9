//! What `audit verify --against` reads: exported spans and logged checkpoints, in whatever lines they came. Owns where a
//! position may stand in them. Invariant: a line that should hold a position and does not is named, not skipped.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use serde_json::{Map, Value};

use crate::audit::verify::Held;

/// Bytes of one line of an export.
const LONGEST: u64 = 256 * 1024 * 1024;

/// Adds what `written` stands for: a checkpoint itself, as the log shows it, or a file.
///
/// # Errors
/// It is neither, or the file holds nothing to compare with.
pub(super) fn add(held: &mut Held, written: &str) -> Result<(), String> {
    if checkpoint(held, written) {
        return Ok(());
    }
    let before = held.len();
    file(held, Path::new(written)).map_err(|why| format!("--against {written}: {why}"))?;
    if held.len() == before {
        return Err(format!("--against {written}: no line of it has a boot, a seq and a hash"));
    }
    Ok(())
}

fn file(held: &mut Held, path: &Path) -> Result<(), String> {
    let mut reader = BufReader::new(File::open(path).map_err(|e| e.to_string())?);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.by_ref().take(LONGEST).read_until(b'\n', &mut line).map_err(|e| e.to_string())?;
        if read == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if text.starts_with(['{', '[']) {
            let value = serde_json::from_str(text).map_err(|e| format!("line {number} is not JSON: {e}"))?;
            find(held, &value);
        } else {
            // A log in text form.
            for word in text.split([' ', '=', '"', ',']) {
                checkpoint(held, word);
            }
        }
    }
    Ok(())
}

/// Takes `BOOT:SEQ:HASH`.
fn checkpoint(held: &mut Held, text: &str) -> bool {
    let mut parts = text.split(':');
    let (Some(boot), Some(seq), Some(hash), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let is_boot = boot.len() == 26 && boot.bytes().all(|b| b.is_ascii_alphanumeric());
    seq.parse().is_ok_and(|seq| is_boot && hash.len() == 64 && held.add(boot, seq, hash, true))
}

/// Looks for positions at any depth: spans and log records of OTLP JSON, journal lines, logs in JSON.
fn find(held: &mut Held, value: &Value) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| find(held, item)),
        Value::Object(members) => {
            let attributes = members.get("attributes").and_then(Value::as_array);
            let attribute = |name: &str| attributes.and_then(|all| attribute(all, name));
            let member = |name: &str| member(members, name);
            if !position(held, &attribute) && !position(held, &member) {
                members.values().for_each(|inner| find(held, inner));
            }
            if let Some(text) = member("checkpoint").as_ref().and_then(Value::as_str) {
                checkpoint(held, text);
            }
        }
        _ => {}
    }
}

fn position(held: &mut Held, get: &dyn Fn(&str) -> Option<Value>) -> bool {
    let (Some(boot), Some(seq), Some(hash)) = (get("boot"), get("seq"), get("hash")) else { return false };
    // OTLP JSON writes 64-bit numbers as strings.
    let seq = seq.as_u64().or_else(|| seq.as_str()?.parse().ok());
    let is_checkpoint = get("kind").is_some_and(|kind| kind == "checkpoint");
    match (boot.as_str(), seq, hash.as_str()) {
        (Some(boot), Some(seq), Some(hash)) => held.add(boot, seq, hash, is_checkpoint),
        _ => false,
    }
}

fn member(members: &Map<String, Value>, name: &str) -> Option<Value> {
    members.get(name).or_else(|| members.get(&format!("smartgate.{name}"))).cloned()
}

/// `smartgate.NAME` among OTLP's `{"key", "value": {"stringValue"}}`.
fn attribute(attributes: &[Value], name: &str) -> Option<Value> {
    let one = attributes.iter().find(|a| {
        a["key"].as_str().and_then(|key| key.strip_prefix("smartgate.")).is_some_and(|key| key == name)
    })?;
    one["value"].as_object()?.values().next().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: &str = "01M8P2SPSENTMHDKQQ9KR5FTQQ";

    fn held(text: &str) -> Result<u64, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("held");
        std::fs::write(&path, text).unwrap();
        let mut held = Held::default();
        add(&mut held, path.to_str().unwrap()).map(|()| held.len())
    }

    #[test]
    fn positions_are_found_in_spans_lines_and_logs() {
        let hash = "ab".repeat(32);
        let attribute = |key: &str, value: &str| format!(r#"{{"key":"smartgate.{key}","value":{value}}}"#);
        let span = |seq: &str| {
            let attributes = [
                attribute("boot", &format!(r#"{{"stringValue":"{BOOT}"}}"#)),
                attribute("seq", &format!(r#"{{"intValue":{seq}}}"#)),
                attribute("hash", &format!(r#"{{"stringValue":"{hash}"}}"#)),
            ];
            format!(r#"{{"name":"x","attributes":[{}]}}"#, attributes.join(","))
        };
        let export = format!(
            r#"{{"resourceSpans":[{{"resource":{{"attributes":[]}},"scopeSpans":[{{"spans":[{},{},{{"attributes":[]}}]}}]}}]}}"#,
            span("\"7\""),
            span("8")
        );
        assert_eq!(held(&export), Ok(2));
        assert_eq!(held(&format!(r#"{{"boot":"{BOOT}","seq":3,"hash":"{hash}","kind":"call"}}"#)), Ok(1));
        let log = format!("{{\"message\":\"x\",\"checkpoint\":\"{BOOT}:9:{hash}\"}}\nnoise\n");
        assert_eq!(held(&log), Ok(1));
        assert_eq!(held(&format!("INFO audit checkpoint checkpoint=\"{BOOT}:9:{hash}\" key=\"1\"\n")), Ok(1));
        let mut one = Held::default();
        assert_eq!(add(&mut one, &format!("{BOOT}:9:{hash}")).map(|()| one.len()), Ok(1));
    }

    #[test]
    fn what_holds_nothing_is_refused() {
        assert!(held("hello\n").unwrap_err().contains("no line of it has a boot"));
        assert!(held("{\"a\":1}\n{\"boot\":\n").unwrap_err().contains("line 2 is not JSON"));
    }
}
