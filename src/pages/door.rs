//! Who may see the pages and use their API. Owns the admin key, the cookie and the rate of tries.
//!
//! Invariant: on a loopback listener only loopback names are answered (a foreign name that resolves here is DNS rebinding);
//! on any other nothing is answered without the key. What changes state comes from our own pages only.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::{Duration, Instant},
};

use http::{HeaderMap, Uri, header, request::Parts};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::sessions::{self, Session, Sessions};
use crate::{
    policy::{
        auth::bearer,
        origin::OriginPolicy,
        rate_limit::{AddressBuckets, Clock, Quota},
    },
    server::Peer,
};

/// Wrong keys that one address may try in a minute.
const TRIES: u32 = 10;
const COOKIE: &str = "smartgate_admin";

/// See the module.
#[derive(Debug)]
pub(super) struct Door {
    key: Option<[u8; 32]>,
    loopback: bool,
    hosts: OriginPolicy,
    sessions: Sessions,
    tries: AddressBuckets,
    clock: Clock,
}

/// By which right somebody is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// Nobody is asked.
    Free,
    /// The key came with the request.
    Key,
    /// A login.
    Login(Session),
}

/// Why somebody is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shut {
    /// There is no key, so there are no pages here.
    Off,
    /// The request is for a host that we are not.
    ForeignHost,
    /// It was sent by somebody else's page.
    ForeignSite,
    /// No key or login, or a wrong one.
    Unknown,
    /// Too many wrong keys.
    TooMany(Duration),
}

impl Door {
    pub(super) fn new(listen: SocketAddr, key: Option<&str>) -> Self {
        let loopback = listen.ip().to_canonical().is_loopback();
        Self {
            key: key.map(|key| Sha256::digest(key).into()),
            loopback,
            hosts: OriginPolicy::new(&[], &[], loopback),
            sessions: Sessions::default(),
            tries: AddressBuckets::default(),
            clock: Clock::default(),
        }
    }

    /// Whether people log in here.
    pub(super) fn asks(&self) -> bool {
        self.key.is_some()
    }

    /// What holds for every request, logged in or not.
    pub(super) fn admit(&self, head: &Parts) -> Result<(), Shut> {
        let host = authority(head);
        if !self.hosts.allows_host(host) {
            return Err(Shut::ForeignHost);
        }
        if self.key.is_none() && !self.loopback {
            return Err(Shut::Off);
        }
        let own = if head.method.is_safe() { !fetched_elsewhere(head) } else { is_own(head, host) };
        if own { Ok(()) } else { Err(Shut::ForeignSite) }
    }

    /// By which right a request that was admitted sees more.
    pub(super) fn pass(&self, head: &Parts, peer: Peer) -> Result<Pass, Shut> {
        if self.key.is_none() {
            return Ok(Pass::Free);
        }
        if let Some(value) = head.headers.get(header::AUTHORIZATION) {
            let secret = bearer(value.as_bytes()).ok_or(Shut::Unknown)?;
            return self.fits(secret, peer).map(|()| Pass::Key);
        }
        let session = tokens(&head.headers).find_map(|token| self.sessions.find(token, Instant::now()));
        session.map(Pass::Login).ok_or(Shut::Unknown)
    }

    /// Whether a pass that was given still holds.
    pub(super) fn holds(&self, pass: Pass) -> bool {
        match pass {
            Pass::Free | Pass::Key => true,
            Pass::Login(session) => self.sessions.holds(session, Instant::now()),
        }
    }

    /// Logs in with the key; the value of `Set-Cookie`.
    pub(super) fn log_in(&self, secret: &str, head: &Parts, peer: Peer) -> Result<String, Shut> {
        self.fits(secret.as_bytes(), peer)?;
        let token = self.sessions.open(Instant::now()).ok_or(Shut::Unknown)?;
        Ok(cookie(&token, sessions::LIFE, is_https(head, peer)))
    }

    /// Logs out; the value of `Set-Cookie`.
    pub(super) fn log_out(&self, pass: Pass, head: &Parts, peer: Peer) -> String {
        if let Pass::Login(session) = pass {
            self.sessions.close(session);
        }
        cookie("", Duration::ZERO, is_https(head, peer))
    }

    /// Compares in constant time; a right key costs its address no try.
    fn fits(&self, secret: &[u8], peer: Peer) -> Result<(), Shut> {
        let quota = Quota::new(TRIES, Duration::from_secs(60));
        let now = self.clock.now();
        let buckets = self.tries.of(network(peer.addr.ip()), 0, now);
        buckets.own.take(quota, now).map_err(|refused| Shut::TooMany(refused.retry_after))?;
        let hash: [u8; 32] = Sha256::digest(secret).into();
        if !self.key.is_some_and(|key| bool::from(key.ct_eq(&hash))) {
            return Err(Shut::Unknown);
        }
        buckets.own.give_back(quota);
        Ok(())
    }
}

/// Who has one address of IPv6 has the 2^64 beside it.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
        v4 => v4,
    }
}

/// The host that a request is for: HTTP/2 has it in the address.
fn authority(head: &Parts) -> Option<&str> {
    let in_uri = |uri: &'_ Uri| uri.authority().is_some();
    if in_uri(&head.uri) {
        return head.uri.authority().map(http::uri::Authority::as_str);
    }
    text(&head.headers, header::HOST.as_str())
}

/// Whether another site's page asks for data. Its links to our pages are no harm: a strict cookie stays behind.
fn fetched_elsewhere(head: &Parts) -> bool {
    let elsewhere = matches!(text(&head.headers, "sec-fetch-site"), Some("cross-site" | "same-site"));
    elsewhere && text(&head.headers, "sec-fetch-mode") != Some("navigate")
}

/// Whether a page of ours sent it, or no browser: browsers send one of the two (Fetch standard, 3.2 and Fetch Metadata).
fn is_own(head: &Parts, host: Option<&str>) -> bool {
    if let Some(site) = text(&head.headers, "sec-fetch-site") {
        return site == "same-origin";
    }
    let Some(origin) = head.headers.get(header::ORIGIN) else { return true };
    let of = |origin: &str| origin.split_once("://").map(|(_, authority)| authority.to_ascii_lowercase());
    let origin = origin.to_str().ok().and_then(of);
    origin.is_some() && origin == host.map(str::to_ascii_lowercase)
}

fn is_https(head: &Parts, peer: Peer) -> bool {
    peer.tls || text(&head.headers, "x-forwarded-proto").is_some_and(|p| p.eq_ignore_ascii_case("https"))
}

/// The values of our cookie, of which a browser may have several.
fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == COOKIE).map(|(_, token)| token)
}

fn cookie(token: &str, life: Duration, https: bool) -> String {
    let secure = if https { "; Secure" } else { "" };
    format!("{COOKIE}={token}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{secure}", life.as_secs())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const PEER: Peer =
        Peer { addr: SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1), tls: false };

    fn head(method: &str, headers: &[(&str, &str)]) -> Parts {
        let request = Request::builder().method(method).uri("/activity");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    fn door(listen: &str, key: Option<&str>) -> Door {
        Door::new(listen.parse().unwrap(), key)
    }

    #[test]
    fn a_loopback_listener_answers_loopback_names_only() {
        let door = door("127.0.0.1:9787", None);
        for host in ["localhost:9787", "127.0.0.1:1", "[::1]"] {
            assert_eq!(door.admit(&head("GET", &[("host", host)])), Ok(()), "{host}");
        }
        for host in ["evil.example", "10.0.0.1", "localhost.evil.example"] {
            assert_eq!(door.admit(&head("GET", &[("host", host)])), Err(Shut::ForeignHost), "{host}");
        }
        assert_eq!(door.admit(&head("GET", &[])), Err(Shut::ForeignHost));
        assert_eq!(door.pass(&head("GET", &[]), PEER), Ok(Pass::Free));
    }

    #[test]
    fn elsewhere_nothing_is_shown_without_a_key() {
        let get = head("GET", &[("host", "gate.example")]);
        assert_eq!(door("0.0.0.0:9787", None).admit(&get), Err(Shut::Off));
        let door = door("[::]:9787", Some("k"));
        assert_eq!(door.admit(&get), Ok(()));
        assert_eq!(door.pass(&get, PEER), Err(Shut::Unknown));
        let with = |value: &str| door.pass(&head("GET", &[("authorization", value)]), PEER);
        assert_eq!(with("Bearer k"), Ok(Pass::Key));
        assert_eq!(with("Bearer x"), Err(Shut::Unknown));
        assert_eq!(with("Basic k"), Err(Shut::Unknown));
    }

    #[test]
    fn a_login_is_a_strict_cookie_and_secure_where_it_can_be() {
        let door = door("0.0.0.0:9787", Some("k"));
        let plain = door.log_in("k", &head("POST", &[]), PEER).unwrap();
        assert!(plain.contains("; HttpOnly; SameSite=Strict") && !plain.contains("Secure"), "{plain}");
        let forwarded = head("POST", &[("x-forwarded-proto", "https")]);
        assert!(door.log_in("k", &forwarded, PEER).unwrap().ends_with("; Secure"));
        let pair = plain.split(';').next().unwrap();
        let both = format!("smartgate_admin=stale; {pair}");
        let pass = door.pass(&head("GET", &[("cookie", &both)]), PEER).unwrap();
        assert!(matches!(pass, Pass::Login(_)) && door.holds(pass));
        assert!(door.log_out(pass, &forwarded, PEER).contains("Max-Age=0"));
        assert!(!door.holds(pass));
        assert_eq!(door.pass(&head("GET", &[("cookie", &both)]), PEER), Err(Shut::Unknown));
    }

    #[test]
    fn wrong_keys_are_few_and_right_ones_are_free() {
        let door = door("0.0.0.0:9787", Some("k"));
        let other = Peer { addr: "10.0.0.2:1".parse().unwrap(), tls: false };
        (0..100).for_each(|_| drop(door.log_in("k", &head("POST", &[]), PEER).unwrap()));
        for _ in 0..TRIES {
            assert_eq!(door.log_in("x", &head("POST", &[]), PEER), Err(Shut::Unknown));
        }
        assert!(matches!(door.log_in("k", &head("POST", &[]), PEER), Err(Shut::TooMany(_))));
        assert!(door.log_in("k", &head("POST", &[]), other).is_ok());
        assert_eq!(network("2001:db8::1".parse().unwrap()), network("2001:db8::ffff:1".parse().unwrap()));
    }

    #[test]
    fn what_changes_state_comes_from_our_own_pages() {
        let door = door("127.0.0.1:9787", Some("k"));
        let post = |headers: &[(&str, &str)]| {
            door.admit(&head("POST", &[&[("host", "localhost:9787")], headers].concat()))
        };
        assert_eq!(post(&[("sec-fetch-site", "same-origin")]), Ok(()));
        assert_eq!(post(&[("origin", "http://LOCALHOST:9787")]), Ok(()));
        assert_eq!(post(&[]), Ok(()), "no browser");
        for site in ["cross-site", "same-site", "none"] {
            assert_eq!(post(&[("sec-fetch-site", site)]), Err(Shut::ForeignSite), "{site}");
        }
        for origin in
            ["null", "http://localhost:1", "https://evil.example", "http://evil.example/localhost:9787"]
        {
            assert_eq!(post(&[("origin", origin)]), Err(Shut::ForeignSite), "{origin}");
        }
        let get = |headers: &[(&str, &str)]| {
            door.admit(&head("GET", &[&[("host", "localhost")], headers].concat()))
        };
        assert_eq!(get(&[("sec-fetch-site", "cross-site")]), Err(Shut::ForeignSite));
        assert_eq!(get(&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]), Ok(()));
    }
}
