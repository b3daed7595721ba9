//! Sessions as sealed ids: what a client said at `initialize` travels with it, so that any replica with the key
//! serves it.
//!
//! Invariant: a session is who its id says, for the principal that it was made for, and nobody else.

use std::{sync::Arc, time::Duration};

use http::{Extensions, HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{refusal::Refusal, revision::Revision};
use crate::{
    bridge::sealed::{Purpose, Sealer},
    mcp::era::{SESSION_HEADER, VERSION_HEADER},
    upstream::{
        ClientSession,
        named::{Named, Openings},
    },
};

/// How long an id opens a session. After it the client gets a 404 and initializes again.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Characters of a client's name, title and version that are kept: the id is a header.
const LONGEST: usize = 128;

/// Bytes of JSON in an id: sealed and in base64 they are 4 KiB, half of what strict servers take for all headers.
const MOST: usize = 3_000;

/// Names what is remembered of a session in this process.
pub(super) type Nonce = [u64; 2];

/// What the client can be asked, as bits.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Can(u8);

impl Can {
    pub(super) const ROOTS: Self = Self(1);
    pub(super) const SAMPLE: Self = Self(2);
    const SAMPLE_TOOLS: Self = Self(4);
    const SAMPLE_CONTEXT: Self = Self(8);
    pub(super) const FILL_FORMS: Self = Self(16);
    pub(super) const OPEN_URLS: Self = Self(32);

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn with(self, other: Self, wanted: bool) -> Self {
        if wanted { Self(self.0 | other.0) } else { self }
    }

    /// From `params.capabilities` of `initialize`. Tasks, experiments and extensions are not bridged.
    pub(super) fn declared(capabilities: &Value, revision: Revision) -> Self {
        let there = |path: &str| capabilities.pointer(path).is_some_and(Value::is_object);
        let elicits = there("/elicitation") && revision.has_elicitation();
        let urls = elicits && revision.has_url_elicitation() && there("/elicitation/url");
        // Until 2025-11-25 there were only forms, and an empty object still means them.
        let forms = elicits && (!urls || there("/elicitation/form"));
        let newest = revision >= Revision::V2025_11_25;
        Self::default()
            .with(Self::ROOTS, there("/roots"))
            .with(Self::SAMPLE, there("/sampling"))
            .with(Self::SAMPLE_TOOLS, newest && there("/sampling/tools"))
            .with(Self::SAMPLE_CONTEXT, newest && there("/sampling/context"))
            .with(Self::FILL_FORMS, forms)
            .with(Self::OPEN_URLS, urls)
    }

    /// As `clientCapabilities` of a modern request.
    pub(super) fn modern(self) -> Value {
        let mut out = json!({});
        let mut add = |bit: Self, group: &str, inside: Option<&str>| {
            if self.has(bit) {
                let group = &mut out[group];
                if group.is_null() {
                    *group = json!({});
                }
                if let Some(inside) = inside {
                    group[inside] = json!({});
                }
            }
        };
        add(Self::ROOTS, "roots", None);
        add(Self::SAMPLE, "sampling", None);
        add(Self::SAMPLE_TOOLS, "sampling", Some("tools"));
        add(Self::SAMPLE_CONTEXT, "sampling", Some("context"));
        add(Self::FILL_FORMS, "elicitation", Some("form"));
        add(Self::OPEN_URLS, "elicitation", Some("url"));
        out
    }
}

/// What a client says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClientInfo {
    name: String,
    version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

impl ClientInfo {
    /// From `params.clientInfo` of `initialize`, shortened.
    pub(super) fn read(info: &Value) -> Option<Self> {
        let text = |key: &str| info.get(key)?.as_str().map(|t| t.chars().take(LONGEST).collect());
        Some(Self { name: text("name")?, version: text("version").unwrap_or_default(), title: text("title") })
    }
}

/// What a sealed id holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claims {
    #[serde(rename = "r")]
    pub(super) revision: Revision,
    #[serde(rename = "c")]
    pub(super) client: Option<ClientInfo>,
    #[serde(rename = "k")]
    pub(super) can: Can,
    #[serde(rename = "n")]
    pub(super) nonce: Nonce,
    /// Sessions with servers that were opened for this one.
    #[serde(rename = "u", default, skip_serializing_if = "Named::is_empty")]
    pub(super) named: Named,
}

impl Claims {
    /// Where the sessions with servers are collected that the id has room for.
    pub(super) fn openings(&self) -> Openings {
        let taken = serde_json::to_string(self).map_or(MOST, |json| json.len());
        Openings::with_room(MOST.saturating_sub(taken))
    }

    /// The id for the client's header.
    pub(super) fn seal(&self, sealer: &Sealer, principal: &str) -> Option<HeaderValue> {
        HeaderValue::from_str(&sealer.seal(Purpose::Session, principal, LIFETIME, self)).ok()
    }
}

/// A name for a session that begins.
pub(super) fn new_nonce() -> Nonce {
    [fresh(), fresh()]
}

/// A number that nobody guesses.
pub(super) fn fresh() -> u64 {
    getrandom::u64().expect("the system gives random bytes")
}

/// For whom a request is made.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) principal: Arc<str>,
    pub(super) revision: Revision,
    pub(super) client: Option<ClientInfo>,
    pub(super) can: Can,
    /// `None` without a session header: plain calls are served, nothing is remembered.
    pub(super) nonce: Option<Nonce>,
    pub(super) named: Arc<Named>,
}

impl Session {
    /// The session that the headers name, or what a client without one is taken for.
    ///
    /// # Errors
    /// 404 for an id that does not open, 400 for a version that nobody knows.
    pub(super) fn of(sealer: &Sealer, headers: &HeaderMap, principal: Arc<str>) -> Result<Self, Refusal> {
        let version = stated(headers)?;
        let mut ids = headers.get_all(SESSION_HEADER).iter();
        let Some(id) = ids.next() else {
            let revision = version.unwrap_or(Revision::ASSUMED);
            let (can, named) = (Can::default(), Arc::default());
            return Ok(Self { principal, revision, client: None, can, nonce: None, named });
        };
        let claims = id
            .to_str()
            .ok()
            .filter(|_| ids.next().is_none())
            .and_then(|id| sealer.open::<Claims>(Purpose::Session, &principal, id).ok())
            .ok_or_else(Refusal::session_not_found)?;
        let Claims { revision, client, can, nonce, named } = claims;
        Ok(Self { principal, revision, client, can, nonce: Some(nonce), named: Arc::new(named) })
    }

    /// Says on a request to the other side which session it is of.
    pub(super) fn mark(&self, extensions: &mut Extensions) {
        if let Some(nonce) = self.nonce {
            extensions.insert(ClientSession(nonce));
        }
        if !self.named.is_empty() {
            extensions.insert(Arc::clone(&self.named));
        }
    }
}

/// The revision that a session of this principal was opened with, by the session's id.
#[must_use]
pub fn session_revision(sealer: &Sealer, principal: &str, id: &str) -> Option<&'static str> {
    sealer.open::<Claims>(Purpose::Session, principal, id).ok().map(|claims| claims.revision.as_str())
}

/// The revision of the version header, which must be one of ours where it is there.
fn stated(headers: &HeaderMap) -> Result<Option<Revision>, Refusal> {
    let Some(value) = headers.get(VERSION_HEADER) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    Revision::named(text).map(Some).ok_or_else(|| Refusal::unsupported_version(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::named::Opened;

    #[test]
    fn capabilities_follow_the_revision() {
        let all = json!({"roots": {"listChanged": true}, "sampling": {"tools": {}}, "tasks": {},
                         "elicitation": {"form": {}, "url": {}}, "extensions": {"a/b": {}}});
        let modern = |revision| Can::declared(&all, revision).modern();
        assert_eq!(modern(Revision::V2025_03_26), json!({"roots": {}, "sampling": {}}));
        assert_eq!(
            modern(Revision::V2025_06_18),
            json!({"roots": {}, "sampling": {}, "elicitation": {"form": {}}})
        );
        assert_eq!(
            modern(Revision::V2025_11_25),
            json!({"roots": {}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}})
        );
        let bare = Can::declared(&json!({"elicitation": {}}), Revision::V2025_11_25).modern();
        assert_eq!(bare, json!({"elicitation": {"form": {}}}));
        let urls = Can::declared(&json!({"elicitation": {"url": {}}}), Revision::V2025_11_25).modern();
        assert_eq!(urls, json!({"elicitation": {"url": {}}}));
    }

    fn claims(client: Option<ClientInfo>, named: Named) -> Claims {
        Claims { revision: Revision::NEWEST, client, can: Can(63), nonce: [u64::MAX; 2], named }
    }

    #[test]
    fn an_id_is_a_short_header_whatever_the_client_says() {
        let info = json!({"name": "n".repeat(9000), "version": "1", "icons": ["x".repeat(9000)]});
        let claims = claims(ClientInfo::read(&info), Named::default());
        let id = claims.seal(&Sealer::of_this_process(), "ada").unwrap();
        assert!(id.len() < 600, "{}", id.len());
        assert!(id.as_bytes().iter().all(u8::is_ascii_graphic));
    }

    #[test]
    fn an_id_stays_a_header_whatever_the_servers_say() {
        for letter in ["n", "\u{1}"] {
            let text = letter.repeat(LONGEST);
            let info = ClientInfo::read(&json!({"name": text, "version": text, "title": text}));
            let claims = claims(info, Named::default());
            let openings = claims.openings();
            for n in 0..100 {
                let (id, version) = ("\\".repeat(40).into(), "2025-11-25".into());
                let opened = Opened { id, version, offers: 31, owner: Some(u64::MAX) };
                let _bounded = openings.at(&format!("server-{n}").into()).name(opened);
            }
            let claims = Claims { named: openings.close(), ..claims };
            let id = claims.seal(&Sealer::of_this_process(), "ada").unwrap();
            assert!(!claims.named.is_empty() && (3_000..=4_096).contains(&id.len()), "{}", id.len());
        }
    }
}
