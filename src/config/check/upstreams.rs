//! `[upstreams.NAME]`: what answers, and how it is reached.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use http::Uri;

use super::{Checker, NamedUpstreams, word};
use crate::config::{
    Globs, Storage, Target, Upstream, UpstreamTls,
    file::{
        self, ANSWER_WITHIN, CONNECT_TIMEOUT, IDLE_TIMEOUT, MAX_TOTAL_TIMEOUT, PROTOCOL, RETRIES, TIMEOUT,
    },
    text::{self, At},
};

/// The upstream that there is without any in the file.
pub(in crate::config) const BUILTIN: &str = "builtin";
/// Longest name of an upstream: it is a path segment, a prefix of tool names and a label.
const NAME_MAX: usize = 32;

/// Most replicas of one upstream.
const REPLICAS: usize = 64;

impl Checker<'_> {
    pub(super) fn upstreams(&mut self, written: NamedUpstreams, storage: &Storage) -> Vec<Upstream> {
        let several = written.len() > 1;
        let mut builtin = None;
        let mut upstreams = Vec::new();
        for (name, upstream) in written {
            let again = upstream.value.builtin.as_ref().filter(|b| b.value);
            if let Some((At { at, .. }, first)) = again.zip(builtin.as_ref()) {
                let message = format!("`upstreams.{name}`: `{first}` has the built-in tools already");
                self.findings.problem(*at, message);
            } else if again.is_some() {
                builtin = Some(name.clone());
            }
            upstreams.push(self.upstream(&name, upstream, several, storage));
        }
        if upstreams.is_empty() {
            let only = file::Upstream { builtin: Some(At::outside(true)), ..Default::default() };
            upstreams.push(self.upstream(BUILTIN, At::outside(only), false, storage));
        }
        upstreams
    }

    fn upstream(
        &mut self,
        name: &str,
        written: At<file::Upstream>,
        several: bool,
        storage: &Storage,
    ) -> Upstream {
        let (at, mut upstream) = (written.at, written.value);
        if let Err(why) = upstream_name(name) {
            self.findings.problem(at, format!("`upstreams.{name}`: the name {why}"));
        }
        let of = |key: &str| format!("upstreams.{name}.{key}");
        let target = self.target(name, &upstream, at);
        self.only_with_command(name, &upstream, &target);
        if matches!(target, Target::Command(_)) && !upstream.headers.is_empty() {
            self.findings.warn(at, format!("`{}` has no effect: a command gets no headers", of("headers")));
        }
        let spoken = word(upstream.protocol.as_ref(), PROTOCOL);
        let http_sse = matches!(spoken, file::Protocol::Sse | file::Protocol::V20241105);
        if http_sse && matches!(target, Target::Command(_)) {
            let at = upstream.protocol.as_ref().and_then(|p| p.at);
            let message = format!("`{}`: HTTP+SSE needs a `url`", of("protocol"));
            self.findings.problem(at, message);
        }
        if http_sse && matches!(target, Target::Replicas(_)) {
            let at = upstream.protocol.as_ref().and_then(|p| p.at);
            let why = "HTTP+SSE takes one `url`: a session is one stream, and replicas share none; list them as upstreams of their own";
            self.findings.problem(at, format!("`{}`: {why}", of("protocol")));
        }
        let prefix = if several && target != Target::Builtin { name } else { "" };
        Upstream {
            show: self.show(name, &mut upstream, storage),
            name: Arc::from(name),
            protocol: protocol(spoken).map(str::to_owned),
            http_sse,
            prefix: self.prefix(&of("prefix"), upstream.prefix.as_ref(), prefix),
            tools: self.tools(&of("tools"), upstream.tools),
            headers: self.headers(&of("headers"), upstream.headers),
            timeout: self.value(&of("timeout"), upstream.timeout.as_ref(), TIMEOUT, text::timeout),
            idle_timeout: self.value(
                &of("idle_timeout"),
                upstream.idle_timeout.as_ref(),
                IDLE_TIMEOUT,
                text::timeout,
            ),
            max_total_timeout: self.value(
                &of("max_total_timeout"),
                upstream.max_total_timeout.as_ref(),
                MAX_TOTAL_TIMEOUT,
                text::timeout,
            ),
            answer_within: self.value(
                &of("answer_within"),
                upstream.answer_within.as_ref(),
                ANSWER_WITHIN,
                text::timeout,
            ),
            connect_timeout: self.value(
                &of("connect_timeout"),
                upstream.connect_timeout.as_ref(),
                CONNECT_TIMEOUT,
                text::timeout,
            ),
            retries: upstream.retry.attempts.map_or(RETRIES, |a| a.value),
            schema_coercion: upstream.schema_coercion.map(|c| c.value.into()),
            tls: self.upstream_tls(&of("tls"), upstream.tls, &target),
            smart: self.smart(name, upstream.fetch, upstream.search, &target),
            target,
        }
    }

    fn tools(&mut self, key: &str, written: Option<Vec<At<text::GlobText>>>) -> Globs {
        self.globs(key, written)
    }

    fn target(&mut self, name: &str, upstream: &file::Upstream, at: Option<usize>) -> Target {
        let builtin = upstream.builtin.as_ref().is_some_and(|b| b.value);
        match (&upstream.url, &upstream.command, builtin) {
            (Some(written), None, false) => {
                self.urls(&format!("upstreams.{name}.url"), written).unwrap_or(Target::Builtin)
            }
            (None, Some(written), false) => {
                self.command(name, written, upstream).map_or(Target::Builtin, Target::Command)
            }
            (None, None, true) => Target::Builtin,
            (None, None, false) => {
                if !self.findings.maimed(at) {
                    let message = format!("`upstreams.{name}` needs `url`, `command` or `builtin = true`");
                    self.findings.problem(at, message);
                }
                Target::Builtin
            }
            _ => {
                let message = format!("`upstreams.{name}` takes only one of `url`, `command` and `builtin`");
                self.findings.problem(at, message);
                Target::Builtin
            }
        }
    }

    fn urls(&mut self, key: &str, written: &At<text::UrlsText>) -> Option<Target> {
        let texts = match &written.value {
            text::UrlsText::One(one) => std::slice::from_ref(one),
            text::UrlsText::Several(several) => several.as_slice(),
        };
        let parsed: Result<Vec<Uri>, String> = texts.iter().map(|text| url(text)).collect();
        let checked = parsed.and_then(|urls| match urls.as_slice() {
            [] => Err("needs at least one URL".to_owned()),
            [only] => Ok(Target::Http(only.clone())),
            [first, rest @ ..] => {
                let place = |u: &Uri| (u.scheme_str().map(str::to_owned), u.path_and_query().cloned());
                if rest.iter().any(|u| place(u) != place(first)) {
                    return Err("replicas may differ in host and port only".into());
                }
                let mut seen = std::collections::HashSet::new();
                if urls.len() > REPLICAS || !urls.iter().all(|u| seen.insert(u)) {
                    return Err(format!("takes at most {REPLICAS} URLs, each once"));
                }
                Ok(Target::Replicas(urls))
            }
        });
        checked.map_err(|why| self.findings.problem(written.at, format!("`{key}`: {why}"))).ok()
    }

    fn upstream_tls(
        &mut self,
        key: &str,
        written: Option<At<file::UpstreamTls>>,
        target: &Target,
    ) -> UpstreamTls {
        let Some(At { value: tls, at }) = written else { return UpstreamTls::default() };
        if tls.cert.is_some() != tls.key.is_some() && !self.findings.maimed(at) {
            self.findings.problem(at, format!("`{key}`: `cert` and `key` go together"));
        }
        let url = match target {
            Target::Http(url) => Some(url),
            Target::Replicas(urls) => urls.first(),
            _ => None,
        };
        if url.is_none_or(|u| u.scheme_str() != Some("https")) && self.findings.clean() {
            self.findings.warn(at, format!("`{key}` has no effect: the upstream is not https"));
        }
        let mut file = |name: &str, path: Option<At<text::PathText>>| -> Option<PathBuf> {
            path.map(|p| self.readable(&format!("{key}.{name}"), &p))
        };
        UpstreamTls { ca: file("ca", tls.ca), cert: file("cert", tls.cert), key: file("key", tls.key) }
    }
}

/// Upstreams of a file, in its order.
pub(in crate::config) fn in_order(upstreams: BTreeMap<String, At<file::Upstream>>) -> NamedUpstreams {
    let mut upstreams: Vec<_> = upstreams.into_iter().collect();
    upstreams.sort_by_key(|(_, upstream)| upstream.at);
    upstreams
}

/// Whether this can be the name of an upstream, `[a-z0-9-]+`.
fn upstream_name(name: &str) -> Result<(), String> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(plain) {
        return Err(format!("must be 1 to {NAME_MAX} of a-z, 0-9 and -"));
    }
    Ok(())
}

/// An `http` or `https` URL. It is never shown: it may hold a password or a token.
pub(in crate::config) fn url(text: &str) -> Result<Uri, String> {
    let wrong = "must be an http:// or https:// URL with a host";
    let uri: Uri = text.parse().map_err(|_| wrong.to_owned())?;
    let authority = uri.authority().ok_or(wrong)?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || authority.host().is_empty() {
        return Err(wrong.into());
    }
    if authority.as_str().contains('@') {
        return Err("must not hold a name or password; use `headers`".into());
    }
    if text.contains('#') {
        return Err("must not have a fragment".into());
    }
    Ok(uri)
}

fn protocol(written: file::Protocol) -> Option<&'static str> {
    match written {
        file::Protocol::Auto => None,
        file::Protocol::V20260728 => Some("2026-07-28"),
        file::Protocol::V20251125 => Some("2025-11-25"),
        file::Protocol::V20250618 => Some("2025-06-18"),
        file::Protocol::V20250326 => Some("2025-03-26"),
        file::Protocol::V20241105 => Some("2024-11-05"),
        // The newest is offered, and the server answers with its own.
        file::Protocol::Sse => Some("2025-11-25"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_http_without_credentials() {
        for good in ["http://127.0.0.1:3001/mcp", "https://a.example", "http://[::1]:1/x?y=z"] {
            assert!(url(good).is_ok(), "{good}");
        }
        for bad in
            ["", "127.0.0.1:3001", "ftp://a/b", "/mcp", "http://", "http://u:hunter2@a/", "http://a/#hunter2"]
        {
            assert!(!url(bad).unwrap_err().contains("hunter2"), "{bad}");
        }
    }
}
