//! Headers that tell one caller from another where the gateway asks for no key of its own: they go on to the server, and
//! what it says to one is not for another.

use http::HeaderMap;
use sha2::{Digest, Sha256};

const NAMES: [&str; 3] = ["authorization", "cookie", "x-api-key"];

/// Those of a call.
pub(crate) fn of(headers: &HeaderMap) -> HeaderMap {
    let mut found = HeaderMap::new();
    for name in NAMES {
        for value in headers.get_all(name) {
            found.append(name, value.clone());
        }
    }
    found
}

/// Another one for other credentials; `None` without any.
pub(crate) fn digest(headers: &HeaderMap) -> Option<[u8; 32]> {
    let mut digest = Sha256::new();
    let mut any = false;
    for (n, name) in (0_u8..).zip(NAMES) {
        for value in headers.get_all(name) {
            any = true;
            digest.update([n]);
            digest.update((value.len() as u64).to_be_bytes());
            digest.update(value.as_bytes());
        }
    }
    any.then(|| digest.finalize().into())
}
