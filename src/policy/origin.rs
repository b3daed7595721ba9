//! DNS-rebinding defence: which `Origin` and `Host` values may talk to a listener (every MCP revision's
//! transport page: servers MUST validate `Origin`).

/// Compiled `allowed_origins` and `allowed_hosts` of one listener.
#[derive(Debug, Clone)]
pub struct OriginPolicy {
    origins: Vec<String>,
    any_origin: bool,
    hosts: Vec<String>,
    any_host: bool,
    loopback: bool,
}

impl OriginPolicy {
    /// `loopback`: whether the listener's own address is a loopback one.
    #[must_use]
    pub fn new(origins: &[String], hosts: &[String], loopback: bool) -> Self {
        let lower =
            |list: &[String]| list.iter().map(|s| s.trim_end_matches('/').to_ascii_lowercase()).collect();
        Self {
            any_origin: origins.iter().any(|o| o == "*"),
            origins: lower(origins),
            any_host: hosts.iter().any(|h| h == "*") || (hosts.is_empty() && !loopback),
            hosts: lower(hosts),
            loopback,
        }
    }

    /// Whether a present `Origin` may call.
    #[must_use]
    pub fn allows_origin(&self, origin: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        self.any_origin || self.origins.contains(&origin) || (self.loopback && is_loopback_origin(&origin))
    }

    /// Whether this `Host` (or `:authority`) may be addressed. An absent one is `None`.
    #[must_use]
    pub fn allows_host(&self, authority: Option<&str>) -> bool {
        if self.any_host {
            return true;
        }
        let Some(authority) = authority else { return false };
        let name = without_port(authority);
        if self.hosts.is_empty() {
            return is_loopback_name(name);
        }
        self.hosts.iter().any(|h| h.eq_ignore_ascii_case(authority) || h.eq_ignore_ascii_case(name))
    }
}

fn is_loopback_origin(origin: &str) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(|authority| is_loopback_name(without_port(authority)))
}

const LOCALHOST: &str = "localhost";

/// `localhost`, a name below it (RFC 6761 section 6.3), 127.0.0.0/8 or `[::1]`.
fn is_loopback_name(name: &str) -> bool {
    let v4 = || name.parse::<std::net::Ipv4Addr>().is_ok_and(|a| a.is_loopback());
    let domain = name.len().checked_sub(LOCALHOST.len()).and_then(|at| name.split_at_checked(at));
    let local = domain.is_some_and(|(before, last)| {
        last.eq_ignore_ascii_case(LOCALHOST) && (before.is_empty() || before.ends_with('.'))
    });
    local || name == "[::1]" || v4()
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(origins: &[&str], hosts: &[&str], loopback: bool) -> OriginPolicy {
        let own = |l: &[&str]| l.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        OriginPolicy::new(&own(origins), &own(hosts), loopback)
    }

    #[test]
    fn a_loopback_listener_takes_loopback_names_only() {
        let p = policy(&[], &[], true);
        for host in ["localhost", "127.0.0.1:8787", "[::1]:8787", "LOCALHOST:1", "app.localhost"] {
            assert!(p.allows_host(Some(host)), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "::1"] {
            assert!(!p.allows_host(Some(host)), "{host}");
        }
        assert!(!p.allows_host(None));
        assert!(p.allows_origin("http://localhost:3000"));
        assert!(p.allows_origin("https://[::1]"));
        for origin in [
            "null",
            "https://evil.example",
            "http://localhost.evil.example",
            "file://",
            "http://localhost@evil.example",
        ] {
            assert!(!p.allows_origin(origin), "{origin}");
        }
    }

    #[test]
    fn an_open_listener_takes_any_host_but_listed_origins_only() {
        let p = policy(&["https://app.example"], &[], false);
        assert!(p.allows_host(Some("anything")) && p.allows_host(None));
        assert!(p.allows_origin("https://APP.example"));
        assert!(!p.allows_origin("http://localhost"));
        assert!(!p.allows_origin("https://app.example.evil.example"));
        assert!(policy(&["*"], &[], false).allows_origin("null"));
    }

    #[test]
    fn listed_hosts_replace_the_default() {
        let p = policy(&[], &["gate.example", "b.example:8443"], true);
        assert!(p.allows_host(Some("gate.example:1")) && p.allows_host(Some("b.example:8443")));
        assert!(!p.allows_host(Some("b.example:1")) && !p.allows_host(Some("localhost")));
        assert!(policy(&[], &["*"], true).allows_host(Some("evil.example")));
    }
}
