//! `robots.txt` (RFC 9309): its place, its rules as kept in memory, and what the absence of it means. Fetching it is
//! the fetcher's work. Invariant: at most [`KEPT`] sites are kept, each for a day at most.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use http::StatusCode;
use texting_robots::Robot;
use url::Url;

use super::client::PRODUCT;

/// Of a longer file the beginning counts (RFC 9309 section 2.5).
pub(super) const MAX_SIZE: usize = 500 * 1024;
/// RFC 9309 section 2.4.
const LIFE: Duration = Duration::from_secs(24 * 3600);
/// A site that fails may be back soon.
const FAILED_LIFE: Duration = Duration::from_secs(10);
const KEPT: usize = 1_000;
/// Rules of one site that are looked at; each becomes a pattern in memory.
const MAX_RULES: usize = 5_000;

/// What a site allows.
pub(super) enum Rules {
    /// There are none.
    All,
    /// It fails, which means no (RFC 9309 section 2.3.1.4).
    Nothing,
    /// As written.
    Written(Box<Robot>),
}

impl Rules {
    /// Of an answer. Takes a while for long files.
    pub(super) fn read(status: StatusCode, body: &[u8]) -> Self {
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Self::Nothing;
        }
        if !status.is_success() {
            return Self::All;
        }
        let body = shorten(body);
        // One that cannot be read is like one that is not there.
        Robot::new(PRODUCT, body).map_or(Self::All, |robot| Self::Written(Box::new(robot)))
    }

    pub(super) fn allow(&self, url: &Url) -> bool {
        match self {
            Self::All => true,
            Self::Nothing => false,
            Self::Written(robot) => robot.allowed(url.as_str()),
        }
    }

    fn life(&self) -> Duration {
        if matches!(self, Self::Nothing) { FAILED_LIFE } else { LIFE }
    }
}

/// Where the rules for `url` are.
pub(super) fn place(url: &Url) -> Url {
    let mut place = url.clone();
    place.set_path("/robots.txt");
    place.set_query(None);
    place
}

/// The first lines of a file that has too many.
fn shorten(body: &[u8]) -> &[u8] {
    let body = &body[..body.len().min(MAX_SIZE)];
    match memchr::memchr_iter(b'\n', body).nth(MAX_RULES) {
        Some(end) => &body[..end],
        None => body,
    }
}

/// The rules of the sites seen last, by the address of their file.
#[derive(Default)]
pub(super) struct Cache {
    sites: Mutex<HashMap<Url, (Arc<Rules>, Instant)>>,
}

impl Cache {
    pub(super) fn get(&self, place: &Url) -> Option<Arc<Rules>> {
        let sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let (rules, until) = sites.get(place)?;
        (*until > Instant::now()).then(|| Arc::clone(rules))
    }

    pub(super) fn put(&self, place: Url, rules: Arc<Rules>) {
        let until = Instant::now() + rules.life();
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        if sites.len() >= KEPT
            && let Some(oldest) =
                sites.iter().min_by_key(|(_, (_, until))| *until).map(|(place, _)| place.clone())
        {
            sites.remove(&oldest);
        }
        sites.insert(place, (rules, until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(body: &str, path: &str) -> bool {
        let url = Url::parse("https://example.com").unwrap().join(path).unwrap();
        Rules::read(StatusCode::OK, body.as_bytes()).allow(&url)
    }

    #[test]
    fn the_longest_rule_for_this_agent_counts() {
        let file = "User-agent: *\nDisallow: /\n\nUser-agent: other\nUser-agent: SmartGate\nDisallow: /private\n\
            Allow: /private/open\nDisallow: /*.zip$\n";
        for (path, expected) in [
            ("/", true),
            ("/private", false),
            ("/private/open/x", true),
            ("/a.zip", false),
            ("/a.zip?x", true),
        ] {
            assert_eq!(allowed(file, path), expected, "{path}");
        }
        assert!(!allowed("User-agent: *\nDisallow: /", "/x"));
        assert!(allowed("", "/x"));
        assert!(allowed("<html>not found</html>", "/x"));
        assert!(!allowed("User-agent: *\nDisallow: /%61b?q=", "/%61b?q=1"));
    }

    #[test]
    fn statuses_mean_what_the_standard_says() {
        let url = Url::parse("https://example.com/x").unwrap();
        for (status, expected) in
            [(404, true), (401, true), (403, true), (500, false), (503, false), (429, false)]
        {
            assert_eq!(
                Rules::read(StatusCode::from_u16(status).unwrap(), b"").allow(&url),
                expected,
                "{status}"
            );
        }
    }

    #[test]
    fn hostile_files_end_and_the_cache_is_bounded() {
        let url = Url::parse(&format!("https://example.com/{}", "a".repeat(2_000))).unwrap();
        let stars = format!("User-agent: *\nDisallow: /{}b\n", "*a".repeat(250_000));
        assert!(Rules::read(StatusCode::OK, stars.as_bytes()).allow(&url));
        let many = format!("User-agent: *\n{}", "Disallow: /*a*b*c*d\n".repeat(25_000));
        assert!(Rules::read(StatusCode::OK, many.as_bytes()).allow(&url));
        let noise: Vec<u8> = (0..500_000).map(|_| fastrand::u8(..)).collect();
        Rules::read(StatusCode::OK, &noise).allow(&url);

        let cache = Cache::default();
        for n in 0..KEPT + 10 {
            cache.put(Url::parse(&format!("https://{n}.example/robots.txt")).unwrap(), Arc::new(Rules::All));
        }
        assert_eq!(cache.sites.lock().unwrap().len(), KEPT);
    }
}
