//! Shares of the storage: each tenant has an equal one, and one more is for what belongs to no tenant. Owns what has to
//! go when a tenant is over its own. What rows weigh is in `schema/shares.sql`.
//!
//! Invariant: a tenant's writing neither removes nor refuses anything of another's. Whoever writes for a tenant calls
//! [`fit`], [`fit_page`] or [`fit_lasting`] in the same transaction.

#[cfg(test)]
mod tests;

use rusqlite::{Connection, OptionalExtension, ffi, params};

/// What the tables of a tenant's words take while they are empty.
const TABLES: i64 = 65_536;

/// Says how large the storage is; it is one tenant's until [`divide`] says otherwise.
pub(super) fn begin(connection: &Connection, quota: u64) -> rusqlite::Result<()> {
    let quota = i64::try_from(quota).unwrap_or(i64::MAX);
    connection.execute_batch("CREATE TEMP TABLE share (quota INTEGER NOT NULL, bytes INTEGER NOT NULL)")?;
    connection.execute("INSERT INTO temp.share VALUES (?1, ?1 / 2)", [quota]).map(drop)
}

/// Divides the storage among `tenants`, and those that left something behind.
pub(super) fn divide(connection: &Connection, tenants: &[String]) -> rusqlite::Result<()> {
    let tenants = serde_json::to_string(tenants).expect("a list of texts is JSON");
    connection
        .execute(
            "UPDATE temp.share SET bytes = quota / (1 + (SELECT count(*) FROM (
                 SELECT tenant FROM shares WHERE bytes > ?1 UNION SELECT value FROM json_each(?2))))",
            params![TABLES, tenants],
        )
        .map(drop)
}

/// Begins to count for a tenant; call it before its first row is written. The operator's, under no name, has no share.
///
/// # Errors
/// The storage's.
pub fn open(connection: &Connection, tenant: &str) -> rusqlite::Result<()> {
    if tenant.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO shares (tenant, bytes) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    connection.prepare_cached(sql)?.execute(params![tenant, TABLES]).map(drop)
}

/// Makes the tenant fit its share: first its kept pages go, then its references other than `spared`, those that end
/// soonest first.
///
/// # Errors
/// It does not fit even so: the storage is full for this tenant.
pub fn fit(connection: &Connection, tenant: &str, spared: &str) -> rusqlite::Result<()> {
    fit_page(connection, tenant)?;
    let sql = "DELETE FROM refs WHERE rowid = (
        SELECT rowid FROM refs WHERE tenant = ?1 AND id <> ?2 ORDER BY expires, rowid LIMIT 1)";
    let mut oldest = connection.prepare_cached(sql)?;
    while !fits(connection, tenant)? {
        if oldest.execute(params![tenant, spared])? == 0 {
            return Err(full());
        }
    }
    Ok(())
}

/// Makes the tenant fit its share as far as letting go of kept pages does it.
///
/// # Errors
/// The storage's.
pub fn fit_page(connection: &Connection, tenant: &str) -> rusqlite::Result<()> {
    let sql = "DELETE FROM pages WHERE rowid = (
        SELECT rowid FROM pages WHERE owner = ?1 ORDER BY expires, rowid LIMIT 1)";
    let mut oldest = connection.prepare_cached(sql)?;
    while !fits(connection, tenant)? && oldest.execute([tenant])? > 0 {}
    Ok(())
}

/// [`fit`] for what stays until it is removed. That has three quarters of a share, so that there is always room to
/// work.
///
/// # Errors
/// As there.
pub fn fit_lasting(connection: &Connection, tenant: &str) -> rusqlite::Result<()> {
    if !lasting_fits(connection, tenant)? {
        return Err(full());
    }
    fit(connection, tenant, "")
}

/// Whether what of a tenant stays fits its part of the share.
///
/// # Errors
/// The storage's.
pub fn lasting_fits(connection: &Connection, tenant: &str) -> rusqlite::Result<bool> {
    is_so(
        connection,
        "SELECT lasting <= (SELECT bytes / 4 * 3 FROM temp.share) FROM shares WHERE tenant = ?1",
        tenant,
    )
}

fn fits(connection: &Connection, tenant: &str) -> rusqlite::Result<bool> {
    is_so(connection, "SELECT bytes <= (SELECT bytes FROM temp.share) FROM shares WHERE tenant = ?1", tenant)
}

fn is_so(connection: &Connection, sql: &str, tenant: &str) -> rusqlite::Result<bool> {
    let row = connection.prepare_cached(sql)?.query_row([tenant], |row| row.get(0)).optional();
    row.map(|is| is.unwrap_or(true))
}

fn full() -> rusqlite::Error {
    let why = "this tenant has used its share of storage.quota".to_owned();
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), Some(why))
}
