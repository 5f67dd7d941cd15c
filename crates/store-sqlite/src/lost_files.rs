//! When a file of the database was moved, removed or replaced under the running server. What was acknowledged is in the
//! files that are still open here: all of it is written into the database file, through the open connection, and no
//! write is taken any more. Going on by ourselves is not tried: whoever does this to files may do it again.

use std::path::Path;

use rusqlite::{Connection, Row};

use crate::ownership::{Lost, Ownership, beside};

/// What is added to the name of a foreign file that lies where our log was.
const ASIDE: &str = "-foreign";

/// Moves the log into the database file and syncs it; says whether all of it got there. Waits for readers that need an older
/// state as long as the connection waits for anybody.
pub(crate) fn move_log(connection: &Connection) -> bool {
    let counts = |row: &Row<'_>| -> rusqlite::Result<(i64, i64, i64)> { Ok((row.get(0)?, row.get(1)?, row.get(2)?)) };
    match connection.query_row("PRAGMA wal_checkpoint(FULL)", [], counts) {
        Ok((busy, pages, moved)) => busy == 0 && pages == moved,
        Err(error) => {
            tracing::error!(%error, "a checkpoint failed");
            false
        }
    }
}

/// Says in the log what was found and what to do. `whole`: the database file holds everything.
pub(crate) fn log_loss(ownership: &Ownership, (lost, whole): (Lost, bool)) {
    let file = format!("{}{}", ownership.path().display(), lost.suffix());
    match (lost, whole) {
        (Lost::Database, _) => tracing::error!(
            "{file} was moved, removed or replaced; no write is taken until it is back. If it is gone, copy {} before you \
             stop this server: it is the database, {}",
            ownership.descriptor(),
            if whole { "with everything that was acknowledged" } else { "without the end of its log" },
        ),
        (_, true) => tracing::error!(
            "{file} was moved, removed or replaced; everything that was acknowledged is in the database file now. No write \
             is taken: find out who touches the files of the database, then start the server again"
        ),
        (_, false) => tracing::error!(
            "{file} was moved, removed or replaced, and its log could not be moved into the database file yet: do NOT stop \
             this server, it tries again. No write is taken"
        ),
    }
    if (lost, whole) == (Lost::Log, true) {
        put_foreign_log_aside(ownership);
    }
}

/// Another file in the place of our log, an older copy for example, would be taken for ours at the next start and undo what
/// is newer. It is renamed, never deleted.
fn put_foreign_log_aside(ownership: &Ownership) {
    let log = beside(ownership.path(), Lost::Log);
    if !log.exists() {
        return;
    }
    let mut aside = log.clone().into_os_string();
    aside.push(ASIDE);
    let aside = Path::new(&aside);
    let renamed = match aside.exists() {
        true => Err(std::io::ErrorKind::AlreadyExists.into()),
        false => std::fs::rename(&log, aside),
    };
    let (log, aside) = (log.display(), aside.display());
    match renamed {
        Ok(()) => tracing::warn!("{log} is not ours; it was renamed to {aside}"),
        Err(error) => tracing::error!(%error, "{log} is not ours: move it away before the server is started again"),
    }
}
