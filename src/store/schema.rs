//! The tables, by version. Owns the order of migrations and the list of what expires.

use rusqlite::{Connection, params};

/// Each brings the schema one version further.
const MIGRATIONS: [&str; 4] = [
    concat!(
        include_str!("schema/refs.sql"),
        include_str!("schema/memory.sql"),
        include_str!("schema/ledger.sql"),
        include_str!("schema/pages.sql"),
        include_str!("schema/index.sql"),
    ),
    include_str!("schema/shares.sql"),
    include_str!("schema/catalog.sql"),
    // What is known of upstreams has files of its own.
    "DROP TABLE catalog",
];

/// Tables whose rows end at `expires`.
const EXPIRING: [&str; 4] = ["refs", "memory", "pages", "answers"];
/// Rows swept at a time from one table, so that calls do not wait long.
const AT_A_TIME: i64 = 2_000;

/// Brings the schema up to date, all or nothing.
///
/// # Errors
/// A sentence for the user.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), String> {
    let wrong = |e: rusqlite::Error| e.to_string();
    let transaction = connection.transaction().map_err(wrong)?;
    let version: u32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(wrong)?;
    let Some(missing) = MIGRATIONS.get(version as usize..) else {
        return Err(format!(
            "it is of version {version}, this program knows {} at most; use a newer smartgate",
            MIGRATIONS.len()
        ));
    };
    for step in missing {
        transaction.execute_batch(step).map_err(wrong)?;
    }
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as u32).map_err(wrong)?;
    transaction.commit().map_err(wrong)
}

/// Removes what has expired, and gives its pages back.
pub(super) fn sweep(connection: &Connection, now: i64) -> rusqlite::Result<()> {
    for table in EXPIRING {
        let sql = format!(
            "DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE expires <= ?1 LIMIT ?2)"
        );
        while connection.execute(&sql, params![now, AT_A_TIME])? == AT_A_TIME as usize {}
    }
    connection.execute_batch("PRAGMA incremental_vacuum(1000)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_first_version_is_brought_up_to_date_with_what_is_in_it() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(MIGRATIONS[0]).unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
        connection
            .execute_batch(
                "INSERT INTO refs (tenant, id, sha256, body, bytes, expires) VALUES ('ada', 'cx', x'00', x'0102', 2, 9);
                 INSERT INTO memory_tenants (number, tenant) VALUES (1, 'bob');
                 INSERT INTO memory (tenant, namespace, id, content, sha256, tags, version, created, updated)
                 VALUES (1, 'default', 'me', 'text', x'00', ' ', 1, 1, 1);",
            )
            .unwrap();
        migrate(&mut connection).unwrap();
        let mut shares =
            connection.prepare("SELECT tenant, bytes - 65536, lasting FROM shares ORDER BY 1").unwrap();
        let shares: Vec<(String, i64, i64)> = shares
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(shares, [("ada".into(), 1_028, 0), ("bob".into(), 1_038, 1_038)]);
    }
}
