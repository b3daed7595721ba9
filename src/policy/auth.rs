//! Bearer keys. Owns the table from secret to key; does not own where the header comes from.
//!
//! Invariant: a secret is hashed on arrival and dropped. The table holds SHA-256 only, finds an entry by
//! hash (100,000 keys cost what ten do) and compares it in constant time.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::rate_limit::Buckets;

/// What the pipeline knows of a key.
#[derive(Debug)]
pub struct Key<F> {
    /// Name shown in records.
    pub name: Arc<str>,
    /// SHA-256 of the secret.
    pub sha256: [u8; 32],
    /// When it stops working.
    pub expires: Option<SystemTime>,
    /// Its rate buckets; they survive a reload that does not change them.
    pub buckets: Arc<Buckets>,
    /// What it may do, compiled by the owner of the snapshot.
    pub facts: F,
}

/// Why a caller is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthFault {
    /// No `Authorization: Bearer` header, or more than one.
    Missing,
    /// No key has this secret.
    Unknown,
    /// The key's time is over.
    Expired,
}

/// All keys, by hash.
#[derive(Debug)]
pub struct KeyTable<F> {
    by_hash: HashMap<[u8; 32], Arc<Key<F>>>,
}

impl<F> KeyTable<F> {
    /// Indexes keys. The configuration check has refused duplicate hashes.
    pub fn new(keys: impl IntoIterator<Item = Key<F>>) -> Self {
        Self { by_hash: keys.into_iter().map(|k| (k.sha256, Arc::new(k))).collect() }
    }

    /// The key with this hash.
    #[must_use]
    pub fn by_hash(&self, sha256: &[u8; 32]) -> Option<&Arc<Key<F>>> {
        self.by_hash.get(sha256)
    }

    /// The key of this name at `now`, for calls whose secret is not known any more.
    ///
    /// # Errors
    /// [`AuthFault::Unknown`] or [`AuthFault::Expired`].
    pub fn named(&self, name: &str, now: SystemTime) -> Result<&Arc<Key<F>>, AuthFault> {
        let key = self.by_hash.values().find(|key| &*key.name == name).ok_or(AuthFault::Unknown)?;
        match key.expires {
            Some(end) if end <= now => Err(AuthFault::Expired),
            _ => Ok(key),
        }
    }

    /// Who a secret stands for at `now`.
    ///
    /// # Errors
    /// [`AuthFault::Unknown`] or [`AuthFault::Expired`].
    pub fn authenticate(&self, secret: &[u8], now: SystemTime) -> Result<&Arc<Key<F>>, AuthFault> {
        let hash: [u8; 32] = Sha256::digest(secret).into();
        let key = self.by_hash.get(&hash).ok_or(AuthFault::Unknown)?;
        if !bool::from(key.sha256.ct_eq(&hash)) {
            return Err(AuthFault::Unknown);
        }
        match key.expires {
            Some(end) if end <= now => Err(AuthFault::Expired),
            _ => Ok(key),
        }
    }
}

/// The secret in an `Authorization` value (RFC 6750 section 2.1; the scheme is case-insensitive, RFC 9110
/// section 11.1).
#[must_use]
pub fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    if !scheme.eq_ignore_ascii_case(b"bearer ") {
        return None;
    }
    let secret = rest.trim_ascii();
    (!secret.is_empty()).then_some(secret)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(name: &str, secret: &str, expires: Option<SystemTime>) -> Key<()> {
        Key {
            name: name.into(),
            sha256: Sha256::digest(secret).into(),
            expires,
            buckets: Arc::new(Buckets::default()),
            facts: (),
        }
    }

    #[test]
    fn finds_a_key_by_its_secret_only() {
        let table = KeyTable::new([key("ada", "s1", None), key("bob", "s2", None)]);
        let now = SystemTime::now();
        assert_eq!(&*table.authenticate(b"s2", now).unwrap().name, "bob");
        assert_eq!(table.authenticate(b"s3", now).unwrap_err(), AuthFault::Unknown);
        assert_eq!(table.authenticate(b"", now).unwrap_err(), AuthFault::Unknown);
    }

    #[test]
    fn a_key_ends_at_its_expiry() {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let table = KeyTable::new([key("ada", "s", Some(end))]);
        assert!(table.authenticate(b"s", end - Duration::from_nanos(1)).is_ok());
        assert_eq!(table.authenticate(b"s", end).unwrap_err(), AuthFault::Expired);
    }

    #[test]
    fn reads_bearer_values_without_regard_to_case() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bearer  abc "), Some(&b"abc"[..]));
        assert_eq!(bearer(b"Basic abc"), None);
        assert_eq!(bearer(b"Bearer "), None);
        assert_eq!(bearer(b"B"), None);
    }
}
