//! Which calls a page or a stream shows, from the query of its address. Owns the parameters' names; the same ones stand
//! in the form, in links and in the API. An empty parameter is one that is not there.

use url::form_urlencoded;

use super::call::Call;
use crate::{
    glob::Globs,
    hosts::{GENERIC, HOSTS, Host},
};

/// Ends of calls, as records name them, in the order of the form.
pub(super) const OUTCOMES: [&str; 8] =
    ["ok", "tool_error", "rpc_error", "rejected", "upstream_failed", "client_closed", "drained", "panicked"];
/// Stands for every end but `ok`.
pub(super) const FAILED: &str = "failed";
/// Stands for calls without a key.
pub(super) const NOBODY: &str = "-";

/// The parameters, in the order of the address.
const NAMES: [&str; 6] = ["key", "tool", "upstream", "outcome", "client", "host"];

/// See the module.
#[derive(Debug, Default, Clone)]
pub(super) struct Filter {
    pub(super) key: String,
    /// A glob over tools, and over the methods of what is no tool call.
    pub(super) tool: String,
    pub(super) upstream: String,
    pub(super) outcome: String,
    /// The part of a client's name that the form takes.
    pub(super) client: String,
    /// A host of the connect page.
    pub(super) host: String,
}

impl Filter {
    /// Reads a query; what it does not know is not its own.
    pub(super) fn of(query: Option<&str>) -> Self {
        let mut filter = Self::default();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if let Some(field) = filter.field(&name) {
                value.trim().clone_into(field);
            }
        }
        filter
    }

    /// Reads a query of the API, which may have `more` parameters: a program that asks for what is not there should not
    /// take what it gets for the answer.
    ///
    /// # Errors
    /// What is not known, and what is.
    pub(super) fn strict(query: Option<&str>, more: &[&str]) -> Result<Self, String> {
        let unknown = form_urlencoded::parse(query.unwrap_or_default().as_bytes())
            .find(|(name, _)| !NAMES.contains(&&**name) && !more.contains(&&**name));
        if unknown.is_some() {
            return Err(format!("no such parameter; known are {}", [&NAMES[..], more].concat().join(", ")));
        }
        let filter = Self::of(query);
        if !["", FAILED].contains(&&*filter.outcome) && !OUTCOMES.contains(&&*filter.outcome) {
            return Err(format!("no such outcome; known are {FAILED}, {}", OUTCOMES.join(", ")));
        }
        if !filter.host.is_empty() && Host::named(&filter.host).is_none() {
            let known: Vec<_> = HOSTS.iter().map(|host| host.name).collect();
            return Err(format!("no such host; known are {}", known.join(", ")));
        }
        Ok(filter)
    }

    fn field(&mut self, name: &str) -> Option<&mut String> {
        Some(match name {
            "key" => &mut self.key,
            "tool" => &mut self.tool,
            "upstream" => &mut self.upstream,
            "outcome" => &mut self.outcome,
            "client" => &mut self.client,
            "host" => &mut self.host,
            _ => return None,
        })
    }

    /// As the query of an address; empty for one that lets everything through.
    pub(super) fn query(&self) -> String {
        let fields = [
            ("key", &self.key),
            ("tool", &self.tool),
            ("upstream", &self.upstream),
            ("outcome", &self.outcome),
            ("client", &self.client),
            ("host", &self.host),
        ];
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(fields.into_iter().filter(|(_, value)| !value.is_empty()));
        query.finish()
    }

    /// The same with another value in one place.
    pub(super) fn with(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        if let Some(field) = other.field(name) {
            value.clone_into(field);
        }
        other
    }

    /// Whether a call is let through.
    pub(super) fn lets(&self, call: &Call) -> bool {
        let same = |wanted: &str, is: Option<&str>| match wanted {
            "" => true,
            NOBODY => is.is_none(),
            name => is == Some(name),
        };
        let outcome = match self.outcome.as_str() {
            "" => true,
            FAILED => call.failed(),
            name => call.outcome == name,
        };
        let client = call.client.name.as_deref().unwrap_or_default();
        let part = || client.to_lowercase().contains(&self.client.to_lowercase());
        // What takes any host's block takes any host's call.
        let host = || self.host == GENERIC || Host::of_client(client).is_some_and(|h| h.name == self.host);
        outcome
            && same(&self.key, call.principal.as_deref())
            && same(&self.upstream, call.upstream.as_deref())
            && (self.tool.is_empty() || Globs::new([&self.tool]).matches(call.what()))
            && (self.client.is_empty() || part())
            && (self.host.is_empty() || host())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pages::window::tests::line;

    fn lets(query: &str, more: &str) -> bool {
        let line = line(1, more);
        let call = Call::read(&Arc::from(line.trim_end().as_bytes()), 0).unwrap();
        Filter::of(Some(query)).lets(&call)
    }

    #[test]
    fn every_parameter_narrows() {
        let call =
            r#","principal":"ada","upstream":"files","tool":"files__read","client":{"name":"Cursor-vscode"}"#;
        for good in [
            "",
            "key=ada&tool=files__*",
            "outcome=ok",
            "client=cursor",
            "host=cursor",
            "tool=&key=&x=y",
            "upstream=files",
        ] {
            assert!(lets(good, call), "{good}");
        }
        for bad in
            ["key=bob", "key=-", "tool=read", "outcome=failed", "client=claude", "host=vscode", "upstream=f"]
        {
            assert!(!lets(bad, call), "{bad}");
        }
        assert!(lets("key=-&tool=tools/*&host=generic", r#","method":"tools/list""#));
    }

    #[test]
    fn a_program_hears_of_what_is_not_known() {
        let strict = |query| Filter::strict(Some(query), &["limit"]).map(|_| ());
        for good in ["", "key=a&tool=&limit=x", "outcome=failed", "outcome=drained&host=generic", "&host="] {
            assert_eq!(strict(good), Ok(()), "{good}");
        }
        for (bad, known) in [
            ("prinzipal=a", "key, tool, upstream, outcome, client, host, limit"),
            ("Key=a", "key, tool"),
            ("after=x", "limit"),
            ("outcome=Ok", "failed, ok, tool_error"),
            ("host=emacs", "cursor"),
        ] {
            assert!(strict(bad).unwrap_err().contains(known), "{bad}");
        }
    }

    #[test]
    fn a_query_is_written_as_it_was_read() {
        let hostile = "key=a%26b%3D%3Cscript%3E&tool=x*";
        assert_eq!(Filter::of(Some(hostile)).query(), hostile);
        assert_eq!(Filter::of(Some(hostile)).with("tool", "").query(), "key=a%26b%3D%3Cscript%3E");
        assert_eq!(Filter::of(None).query(), "");
    }
}
