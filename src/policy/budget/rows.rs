//! The levels in the storage: read once at the start, then only added to.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::{
    calendar::Window,
    wall::{Account, Scope, Unit},
};

/// Calls `each` with every account whose window began at `since` or later.
pub(super) fn load(
    connection: &Connection,
    since: i64,
    mut each: impl FnMut(Account, i64, u64),
) -> rusqlite::Result<()> {
    let sql = "SELECT scope, name, window, unit, begins, used FROM ledger WHERE begins >= ?1";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([since])?;
    while let Some(row) = rows.next()? {
        let text = |at: usize| row.get_ref(at)?.as_str().map_err(rusqlite::Error::from);
        let scope = [Scope::Key, Scope::Team].into_iter().find(|s| text(0) == Ok(s.as_str()));
        let window = [Window::Day, Window::Month].into_iter().find(|w| text(2) == Ok(w.as_str()));
        let unit = [Unit::Tokens, Unit::Calls].into_iter().find(|u| text(3) == Ok(u.as_str()));
        // What a later version may have written limits nothing here.
        let (Some(scope), Some(window), Some(unit)) = (scope, window, unit) else { continue };
        let account = Account { scope, name: text(1)?.into(), window, unit };
        each(account, row.get(4)?, u64::try_from(row.get::<_, i64>(5)?).unwrap_or(0));
    }
    Ok(())
}

/// Adds to what is there: another process may have added, too.
pub(super) fn add(connection: &Connection, used: &HashMap<(Account, i64), u64>) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO ledger (scope, name, window, unit, begins, used) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET used = used + excluded.used",
    )?;
    for ((account, begins), used) in used {
        statement.execute(params![
            account.scope.as_str(),
            account.name,
            account.window.as_str(),
            account.unit.as_str(),
            begins,
            i64::try_from(*used).unwrap_or(i64::MAX),
        ])?;
    }
    Ok(())
}
