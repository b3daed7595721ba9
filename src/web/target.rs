//! Which URLs are fetched at all: their scheme, port, user part and host, before any name is resolved. Asked for the
//! first URL and again for each redirect.

use url::{Host, Url};

use super::{FetchError, address};
use crate::config;

const MAX_URL: usize = 2_048;

/// What the configuration lets pass.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) allow_private: bool,
    /// Beside 80 and 443.
    pub(super) ports: Vec<u16>,
}

impl Rules {
    pub(super) fn new(settings: &config::Fetch) -> Self {
        Self { allow_private: settings.allow_private, ports: settings.ports.clone() }
    }

    /// Reads a URL that a caller gave. The fragment is dropped: no server sees it.
    pub(super) fn parse(&self, text: &str) -> Result<Url, FetchError> {
        if text.len() > MAX_URL {
            return Err(FetchError::InvalidUrl(format!("the url is longer than {MAX_URL} bytes")));
        }
        let mut url = Url::parse(text.trim()).map_err(|error| {
            FetchError::InvalidUrl(format!("the url cannot be read ({error}); give a full http or https url"))
        })?;
        url.set_fragment(None);
        self.check(&url)?;
        Ok(url)
    }

    /// Where `location` leads from `from`.
    pub(super) fn redirect(&self, from: &Url, location: &str) -> Result<Url, FetchError> {
        let bad = |why: &str| FetchError::InvalidUrl(format!("the page redirects {why}"));
        if location.len() > MAX_URL {
            return Err(bad("to a url that is too long"));
        }
        let mut to = from.join(location).map_err(|_| bad("to something that is no url"))?;
        to.set_fragment(None);
        if from.scheme() == "https" && to.scheme() == "http" {
            return Err(bad("from https to http, which is not followed"));
        }
        self.check(&to)?;
        Ok(to)
    }

    fn check(&self, url: &Url) -> Result<(), FetchError> {
        let bad = |why: &str| Err(FetchError::InvalidUrl(why.to_owned()));
        if !matches!(url.scheme(), "http" | "https") {
            return bad("only http and https urls are fetched");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return bad("a url with a user name or password is not fetched; leave them out");
        }
        let port = url.port_or_known_default().unwrap_or_default();
        if !matches!(port, 80 | 443) && !self.ports.contains(&port) {
            return bad("only ports 80 and 443 are fetched from here");
        }
        let allowed = self.allow_private
            || match url.host() {
                Some(Host::Ipv4(v4)) => address::is_public(v4.into()),
                Some(Host::Ipv6(v6)) => address::is_public(v6.into()),
                Some(Host::Domain(name)) => !address::is_local_name(name),
                None => return bad("the url names no host"),
            };
        if allowed { Ok(()) } else { Err(FetchError::BlockedAddress) }
    }
}

/// Whether the URL names a place that only its operator can reach.
pub(super) fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(v4)) => !address::is_public(v4.into()),
        Some(Host::Ipv6(v6)) => !address::is_public(v6.into()),
        Some(Host::Domain(name)) => address::is_local_name(name),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules { allow_private: false, ports: vec![8080] }
    }

    #[test]
    fn schemes_ports_and_users_are_limited() {
        for good in [
            "http://example.com",
            "https://example.com:443/a?b#c",
            "http://example.com:8080/",
            " http://1.1.1.1 ",
        ] {
            assert!(rules().parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "example.com",
            "/etc/passwd",
            "file:///etc/passwd",
            "ftp://example.com",
            "gopher://example.com",
            "http://user@example.com",
            "http://:pw@example.com",
            "http://example.com:22",
            "http://",
            "data:text/html,x",
            "http://[::1",
            &format!("http://example.com/{}", "a".repeat(2_048)),
        ] {
            assert!(matches!(rules().parse(bad), Err(FetchError::InvalidUrl(_))), "{bad}");
        }
        for blocked in [
            "http://127.0.0.1",
            "http://0x7f.1/",
            "http://[::ffff:10.0.0.1]:8080/",
            "http://LocalHost/",
            "http://2130706433",
            "https://169.254.169.254/latest/meta-data/",
        ] {
            assert!(matches!(rules().parse(blocked), Err(FetchError::BlockedAddress)), "{blocked}");
        }
    }

    #[test]
    fn redirects_are_checked_like_first_urls() {
        let from = Url::parse("https://example.com/a/b").unwrap();
        let to = |location| rules().redirect(&from, location);
        assert_eq!(to("../c#x").unwrap().as_str(), "https://example.com/c");
        assert_eq!(to("//example.org/").unwrap().as_str(), "https://example.org/");
        assert!(matches!(to("http://example.com/"), Err(FetchError::InvalidUrl(_))));
        assert!(matches!(to("javascript:alert(1)"), Err(FetchError::InvalidUrl(_))));
        assert!(matches!(to("https://127.1/"), Err(FetchError::BlockedAddress)));
    }
}
