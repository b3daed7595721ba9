//! Documents handed out by reference: `cx_` and a ULID. Content-addressed within a tenant, compressed, of bounded
//! life. Invariant: a reference of another tenant, one that expired and one that never was are the same: absent.

use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use super::{now, share};

/// Compression that costs less than the sync of the write.
const LEVEL: i32 = 3;
/// Default life of a reference, in seconds.
pub const TTL: u32 = 3_600;
/// Longest life, in seconds.
pub const MAX_TTL: u32 = 86_400;

pub(super) const GET: &str = "SELECT body, bytes FROM refs WHERE tenant = ?1 AND id = ?2 AND expires > ?3";

/// A reference and its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// `cx_...`
    pub id: String,
    /// Milliseconds since 1970.
    pub expires: i64,
}

/// Keeps `text` for `ttl` seconds. The same text of the same tenant has one reference, which then lives longer. What the
/// tenant's share does not hold goes: pages and references of its own, the oldest first.
///
/// # Errors
/// The storage's; the tenant's share is full.
pub fn put(connection: &Connection, tenant: &str, text: &str, ttl: u32) -> rusqlite::Result<Reference> {
    let expires = now() + i64::from(ttl.min(MAX_TTL)) * 1_000;
    let sha256: [u8; 32] = Sha256::digest(text).into();
    connection.execute(
        "DELETE FROM refs WHERE tenant = ?1 AND sha256 = ?2 AND expires <= ?3",
        params![tenant, sha256, now()],
    )?;
    let renew =
        "UPDATE refs SET expires = max(expires, ?3) WHERE tenant = ?1 AND sha256 = ?2 RETURNING id, expires";
    let known = connection
        .prepare_cached(renew)?
        .query_row(params![tenant, sha256, expires], |row| {
            Ok(Reference { id: row.get(0)?, expires: row.get(1)? })
        })
        .optional()?;
    if let Some(known) = known {
        return Ok(known);
    }
    let id = format!("cx_{}", ulid::Ulid::generate());
    share::open(connection, tenant)?;
    connection
        .prepare_cached(
            "INSERT INTO refs (id, tenant, sha256, body, bytes, expires) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![id, tenant, sha256, compress(text), text.len() as i64, expires])?;
    share::fit(connection, tenant, &id)?;
    Ok(Reference { id, expires })
}

/// The text behind a reference of this tenant. One search of one index by tenant and name: there is nothing by which
/// another tenant's reference could be told from none.
///
/// # Errors
/// The storage's.
pub fn get(connection: &Connection, tenant: &str, id: &str) -> rusqlite::Result<Option<String>> {
    let mut statement = connection.prepare_cached(GET)?;
    let found = statement
        .query_row(params![tenant, id, now()], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    Ok(found.and_then(|(body, bytes)| decompress(&body, usize::try_from(bytes).unwrap_or(0))))
}

/// Whether `text` has the form of a reference.
#[must_use]
pub fn is_reference(text: &str) -> bool {
    let Some(ulid) = text.strip_prefix("cx_") else { return false };
    ulid.len() == 26
        && ulid.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase() && !b"ILOU".contains(&b))
}

/// Packs text for a column.
#[must_use]
pub fn compress(text: &str) -> Vec<u8> {
    zstd::bulk::compress(text.as_bytes(), LEVEL).expect("memory takes whatever is written to it")
}

/// Unpacks text of at most `bytes` from a column.
#[must_use]
pub fn decompress(body: &[u8], bytes: usize) -> Option<String> {
    String::from_utf8(zstd::bulk::decompress(body, bytes).ok()?).ok()
}
