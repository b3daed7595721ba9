//! What a client lets a server ask: the part of its capabilities that can be bridged. Small, so that sessions can be
//! kept by it.

use serde_json::{Map, Value, json};

use crate::mcp::json::Raw;

/// A set of capabilities. Extensions, tasks and settings inside are left out: see docs, "losses".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Asks(u8);

const FORM: u8 = 1;
const URL: u8 = 2;
const SAMPLING: u8 = 4;
const SAMPLING_TOOLS: u8 = 8;
const SAMPLING_CONTEXT: u8 = 16;
const ROOTS: u8 = 32;

impl Asks {
    /// Reads `clientCapabilities`. An elicitation without modes is by form (2025-11-25, elicitation).
    pub(super) fn read(capabilities: Raw<'_>) -> Self {
        let object = |of: Raw<'_>, name: &str| of.get(name).filter(Raw::is_object).is_some();
        let mut set = 0;
        if let Some(elicitation) = capabilities.get("elicitation").filter(Raw::is_object) {
            let url = object(elicitation, "url");
            set |= if url { URL } else { 0 };
            set |= if !url || object(elicitation, "form") { FORM } else { 0 };
        }
        if let Some(sampling) = capabilities.get("sampling").filter(Raw::is_object) {
            set |= SAMPLING;
            set |= if object(sampling, "tools") { SAMPLING_TOOLS } else { 0 };
            set |= if object(sampling, "context") { SAMPLING_CONTEXT } else { 0 };
        }
        set |= if object(capabilities, "roots") { ROOTS } else { 0 };
        Self(set)
    }

    fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    /// Whether the client can be asked anything.
    pub(super) fn any(self) -> bool {
        self.0 != 0
    }

    /// Whether links may be opened.
    pub(super) fn url(self) -> bool {
        self.has(URL)
    }

    /// `capabilities` of `initialize`.
    pub(super) fn declared(self) -> Value {
        let mut all = Map::new();
        let part = |flags: &[(u8, &str)]| {
            let here = flags.iter().filter(|(flag, _)| self.has(*flag));
            Value::Object(here.map(|(_, name)| ((*name).to_owned(), json!({}))).collect())
        };
        if self.has(FORM | URL) {
            all.insert("elicitation".into(), part(&[(FORM, "form"), (URL, "url")]));
        }
        if self.has(SAMPLING) {
            all.insert("sampling".into(), part(&[(SAMPLING_TOOLS, "tools"), (SAMPLING_CONTEXT, "context")]));
        }
        if self.has(ROOTS) {
            all.insert("roots".into(), json!({}));
        }
        Value::Object(all)
    }

    /// Whether the client can be asked this.
    pub(super) fn allow(self, method: &str, params: Option<Raw<'_>>) -> bool {
        match method {
            "elicitation/create" => {
                let url = params.and_then(|p| p.get("mode")).is_some_and(|mode| mode.is_string("url"));
                self.has(if url { URL } else { FORM })
            }
            "sampling/createMessage" => {
                let tools = params.and_then(|p| p.get("tools")).is_some();
                self.has(SAMPLING) && (!tools || self.has(SAMPLING_TOOLS))
            }
            "roots/list" => self.has(ROOTS),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Asks;
    use crate::mcp::json::parse;

    fn asks(text: &str) -> Asks {
        Asks::read(parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn only_what_can_be_bridged_is_declared() {
        let all = asks(
            r#"{"elicitation":{"url":{},"form":{"x":1}},"sampling":{"tools":{},"y":{}},"roots":{"listChanged":true},
                "extensions":{"io.modelcontextprotocol/tasks":{}},"experimental":{}}"#,
        );
        let declared =
            json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}});
        assert_eq!(all.declared(), declared);
        assert_eq!(asks(r#"{"elicitation":{}}"#).declared(), json!({"elicitation": {"form": {}}}));
        assert_eq!(asks(r#"{"elicitation":true,"roots":null}"#).declared(), json!({}));
    }

    #[test]
    fn questions_are_measured_by_mode() {
        let form = asks(r#"{"elicitation":{}}"#);
        let url = parse(br#"{"mode":"url"}"#).unwrap();
        assert!(form.allow("elicitation/create", None) && !form.allow("elicitation/create", Some(url)));
        assert!(!form.allow("sampling/createMessage", None) && !form.allow("roots/list", None));
    }
}
