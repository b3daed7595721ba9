//! When two URLs are the same page. Owns the canonical key and the registrable domain.
//!
//! Invariant: a key depends on the URL alone, so that equal pages meet whichever engine names them.

use url::{Host, Url};

/// Parameters that say how a reader came, not what is read; lower case. All that begin with `utm_` are besides.
const TRACKING: [&str; 29] = [
    "_ga",
    "_gl",
    "_hsenc",
    "_hsmi",
    "dclid",
    "epik",
    "fbclid",
    "gbraid",
    "gclid",
    "gclsrc",
    "igsh",
    "igshid",
    "li_fat_id",
    "mc_cid",
    "mc_eid",
    "mkt_tok",
    "msclkid",
    "oly_anon_id",
    "oly_enc_id",
    "ref_src",
    "s_cid",
    "srsltid",
    "ttclid",
    "twclid",
    "vero_id",
    "wbraid",
    "wickedid",
    "yclid",
    "ysclid",
];

/// A URL as merging sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Canonical {
    /// Equal for the same page: without scheme, `www.`, default port, fragment, tracking and trailing slash,
    /// with sorted parameters.
    pub key: String,
    /// The host, lower case; "" for URLs without one.
    pub host: String,
    /// The registrable domain, or the host where there is none (an address, `localhost`).
    pub site: Option<String>,
}

/// Reads a URL; `None` if it is none, or one without a place such as `mailto:`.
#[must_use]
pub fn canonical(text: &str) -> Option<Canonical> {
    let url = Url::parse(text).ok()?;
    if url.cannot_be_a_base() {
        return None;
    }
    let host = url.host_str().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    if host.is_empty() && matches!(url.scheme(), "http" | "https") {
        return None;
    }
    let mut key = String::with_capacity(text.len());
    if !matches!(url.scheme(), "http" | "https") {
        key.push_str(url.scheme());
        key.push(':');
    }
    key.push_str(without_www(&host));
    if let Some(port) = url.port() {
        key.push_str(&format!(":{port}"));
    }
    key.push_str(url.path().trim_end_matches('/'));
    let query = parameters(url.query().unwrap_or_default());
    if !query.is_empty() {
        key.push('?');
        key.push_str(&query);
    }
    let site = match url.host() {
        Some(Host::Domain(_)) => Some(psl::domain_str(&host).unwrap_or(&host).to_owned()),
        Some(_) => Some(host.clone()),
        None => None,
    };
    Some(Canonical { key, host, site })
}

/// A domain as the arguments of a search give it, also written as a URL; `None` if it cannot be one.
#[must_use]
pub fn domain(text: &str) -> Option<String> {
    let text = text.trim();
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let text = text.split(['/', '?', '#']).next()?;
    let text = text.strip_prefix("*.").unwrap_or(text);
    let host = Url::parse(&format!("http://{text}/")).ok()?.host_str()?.trim_matches('.').to_owned();
    let host = without_www(&host);
    (!host.is_empty()).then(|| host.to_owned())
}

fn without_www(host: &str) -> &str {
    // `www.com` is a name of its own.
    host.strip_prefix("www.").filter(|rest| rest.contains('.')).unwrap_or(host)
}

fn parameters(query: &str) -> String {
    let mut kept: Vec<&str> = query.split('&').filter(|p| !p.is_empty() && !is_tracking(p)).collect();
    kept.sort_unstable();
    kept.join("&")
}

fn is_tracking(parameter: &str) -> bool {
    let name = parameter.split('=').next().unwrap_or_default().to_ascii_lowercase();
    name.starts_with("utm_") || TRACKING.binary_search(&name.as_str()).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(url: &str) -> String {
        canonical(url).unwrap().key
    }

    #[test]
    fn the_same_page_has_one_key() {
        for same in [
            "http://www.Example.com:80/a/",
            "https://example.com:443/a#part",
            "https://example.com/a?utm_source=x&fbclid=1&UTM_Medium=y",
            "https://example.com./a?",
        ] {
            assert_eq!(key(same), "example.com/a", "{same}");
        }
        assert_eq!(key("https://e.org/?b=2&a=1"), key("https://e.org?a=1&b=2&gclid=3"));
        assert_eq!(key("https://BÜCHER.example/"), key("https://xn--bcher-kva.example"));
        assert_eq!(key("file:///srv/Doc.md"), "file:/srv/Doc.md");
    }

    #[test]
    fn other_pages_have_other_keys() {
        let pages = [
            "https://e.org/a",
            "https://e.org/A",
            "https://e.org:8080/a",
            "https://x.e.org/a",
            "https://e.org/a?id=1",
            "file:///e.org/a",
        ];
        for (n, a) in pages.iter().enumerate() {
            for b in &pages[n + 1..] {
                assert_ne!(key(a), key(b));
            }
        }
    }

    #[test]
    fn sites_are_registrable_domains() {
        let site = |url: &str| canonical(url).unwrap().site;
        assert_eq!(site("https://a.b.example.co.uk/").as_deref(), Some("example.co.uk"));
        assert_eq!(site("https://ada.github.io/").as_deref(), Some("ada.github.io"));
        assert_eq!(site("http://127.0.0.1:8888/").as_deref(), Some("127.0.0.1"));
        assert_eq!(site("http://localhost/").as_deref(), Some("localhost"));
        assert_eq!(site("file:///a"), None);
        assert_eq!(canonical("mailto:ada@example.com"), None);
        assert_eq!(canonical("no url"), None);
    }

    #[test]
    fn domains_are_read_leniently() {
        for given in ["example.com", " https://www.Example.com/x?y ", "*.example.com", ".example.com."] {
            assert_eq!(domain(given).as_deref(), Some("example.com"), "{given}");
        }
        for bad in ["", "a b", "https://", "/"] {
            assert_eq!(domain(bad), None, "{bad}");
        }
    }

    #[test]
    fn tracking_is_sorted_for_its_search() {
        assert!(TRACKING.is_sorted());
    }

    proptest! {
        #[test]
        fn nothing_panics_and_a_key_is_stable(scheme in "(https?|file)://", rest in "[a-vx-zA-Z0-9./?&=#%:_ü-]{0,40}") {
            drop((canonical(&rest), domain(&rest)));
            let first = canonical(&format!("{scheme}{rest}"));
            if let Some(first) = first.filter(|_| scheme != "file://") {
                let again = canonical(&format!("{scheme}{}", first.key));
                prop_assert_eq!(again.map(|c| c.key), Some(first.key));
            }
        }
    }
}
