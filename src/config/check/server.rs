//! `[server]` and `[admin]`: addresses, paths, origins, TLS files.

use std::{net::SocketAddr, path::PathBuf};

use http::uri::{Authority, PathAndQuery};

use super::Checker;
use crate::config::{
    Admin, Secret, Server, ServerTls,
    file::{self, ADMIN_LISTEN, BODY_TIMEOUT, DRAIN, HEADER_TIMEOUT, LISTEN, MAX_BODY, PATH},
    text::{self, At},
};

/// Largest `server.max_body`: bodies are held in memory whole.
const MAX_MAX_BODY: u64 = 1 << 30;
/// Characters below which a key of the pages is warned of.
const SHORT_KEY: usize = 16;

impl Checker<'_> {
    pub(super) fn server(&mut self, server: file::Server) -> Server {
        let of = |key: &str| format!("server.{key}");
        Server {
            listen: self.value(&of("listen"), server.listen.as_ref(), LISTEN, address),
            path: self.value(&of("path"), server.path.as_ref(), PATH, endpoint),
            max_body: self.value(&of("max_body"), server.max_body.as_ref(), MAX_BODY, max_body),
            allowed_origins: self.names(&of("allowed_origins"), server.allowed_origins, origin),
            allowed_hosts: self.names(&of("allowed_hosts"), server.allowed_hosts, host),
            header_timeout: self.value(
                &of("header_timeout"),
                server.header_timeout.as_ref(),
                HEADER_TIMEOUT,
                text::timeout,
            ),
            body_timeout: self.value(
                &of("body_timeout"),
                server.body_timeout.as_ref(),
                BODY_TIMEOUT,
                text::timeout,
            ),
            drain: self.value(&of("drain"), server.drain.as_ref(), DRAIN, text::duration),
            tls: server.tls.and_then(|tls| self.server_tls(&tls)),
        }
    }

    pub(super) fn admin(&mut self, admin: file::Admin) -> Admin {
        Admin {
            listen: self.value("admin.listen", admin.listen.as_ref(), ADMIN_LISTEN, address),
            key: admin.key.and_then(|key| self.admin_key(&key)),
        }
    }

    fn admin_key(&mut self, key: &At<text::SecretText>) -> Option<Secret> {
        match self.secret(&key.value.0) {
            Ok(secret) => {
                if secret.chars().count() < SHORT_KEY {
                    let message =
                        format!("`admin.key` can be guessed: it has less than {SHORT_KEY} characters");
                    self.findings.warn(key.at, message);
                }
                Some(Secret::new(&secret))
            }
            Err(why) => {
                self.findings.problem(key.at, format!("`admin.key`: {why}"));
                None
            }
        }
    }

    fn server_tls(&mut self, tls: &At<file::ServerTls>) -> Option<ServerTls> {
        let cert = self.needed_file("server.tls.cert", tls.value.cert.as_ref(), tls.at);
        let key = self.needed_file("server.tls.key", tls.value.key.as_ref(), tls.at);
        let client_ca = tls.value.client_ca.as_ref().map(|f| self.readable("server.tls.client_ca", f));
        Some(ServerTls { cert: cert?, key: key?, client_ca })
    }

    fn needed_file(
        &mut self,
        key: &str,
        file: Option<&At<text::PathText>>,
        table: Option<usize>,
    ) -> Option<PathBuf> {
        if file.is_none() && !self.findings.maimed(table) {
            self.findings.problem(table, format!("`{key}` is missing"));
        }
        file.map(|f| self.readable(key, f))
    }

    fn names(
        &mut self,
        key: &str,
        written: Option<Vec<At<String>>>,
        parse: fn(&str) -> Result<(), String>,
    ) -> Vec<String> {
        let mut names = Vec::new();
        for name in written.unwrap_or_default() {
            if self.parsed(key, &name, parse).is_some() {
                names.push(name.value);
            }
        }
        names
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no address with a port, such as 127.0.0.1:8787 or [::1]:8787"))
}

fn max_body(text: &str) -> Result<usize, String> {
    match text::size(text)? {
        0 => Err("must be above zero".into()),
        bytes if bytes > MAX_MAX_BODY => Err("must be at most 1GiB: bodies are held in memory".into()),
        bytes => usize::try_from(bytes).map_err(|_| "is too large for this machine".into()),
    }
}

/// An absolute path of plain segments, without a slash at the end.
fn endpoint(text: &str) -> Result<String, String> {
    let example = "must be a path such as /mcp";
    let parsed: PathAndQuery = text.parse().map_err(|_| example.to_owned())?;
    let segments = text.strip_prefix('/').ok_or(example)?.split('/');
    if segments.clone().any(|s| s.is_empty() || s == "." || s == "..") || parsed.query().is_some() {
        return Err(format!("{example}, without empty segments, a slash at the end or a query"));
    }
    if segments.clone().any(|s| s == ".well-known") {
        return Err("must not lie under /.well-known, which belongs to OAuth discovery".into());
    }
    if text.contains(['#', '%', '*']) {
        return Err(format!("{example}, without # % *"));
    }
    Ok(text.to_owned())
}

/// `scheme://host[:port]`, as browsers send it (RFC 6454 section 6.2).
fn origin(text: &str) -> Result<(), String> {
    let fits = || {
        let (scheme, rest) = text.split_once("://")?;
        let plain = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
        (plain && !scheme.is_empty() && bare_authority(rest)).then_some(())
    };
    match text {
        "*" | "null" => Ok(()),
        _ => fits()
            .ok_or_else(|| format!("`{text}` is neither * nor an origin such as https://app.example.com")),
    }
}

fn host(text: &str) -> Result<(), String> {
    let fits = text == "*" || bare_authority(text);
    fits.then_some(()).ok_or_else(|| format!("`{text}` is neither * nor a host such as mcp.example.com"))
}

/// A host and perhaps a port, and no wildcard: `*.example.com` would never match.
fn bare_authority(text: &str) -> bool {
    !text.contains(['@', '*']) && text.parse::<Authority>().is_ok_and(|a| !a.host().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_is_a_plain_path() {
        for good in ["/mcp", "/a/b", "/v1.0/mcp"] {
            assert_eq!(endpoint(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "mcp",
            "/",
            "/mcp/",
            "//mcp",
            "/a/../b",
            "/mcp?x=1",
            "/mcp#x",
            "/m cp",
            "/.well-known/x",
            "/%2e",
        ] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn origins_and_hosts_have_no_path() {
        for good in ["*", "null", "https://app.example.com", "http://localhost:3000", "vscode-webview://abc"]
        {
            assert!(origin(good).is_ok(), "{good}");
        }
        for bad in ["", "app.example.com", "https://", "https://a/b", "https://u@a", "https://*.a.com"] {
            assert!(origin(bad).is_err(), "{bad}");
        }
        for good in ["*", "mcp.example.com", "mcp.example.com:8443", "[::1]", "10.0.0.7"] {
            assert!(host(good).is_ok(), "{good}");
        }
        for bad in ["", "https://a", "a/b", "u@a", "*.a.com"] {
            assert!(host(bad).is_err(), "{bad}");
        }
    }
}
