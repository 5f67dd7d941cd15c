//! Handles a file of the database that was moved, removed or replaced while the server runs. The files that are still open
//! hold everything that was acknowledged: it is written into the database file through the open connection, and no more
//! writes are accepted. The server does not recover by itself, because the cause may persist.

use std::path::Path;

use rusqlite::Connection;

use crate::checkpoint::{self, Copied, Mode};
use crate::ownership::{Lost, Ownership, path_of};

/// Suffix for a foreign file in the place of our log.
const FOREIGN_SUFFIX: &str = "-foreign";

/// Copies the log into the database file and syncs it; returns whether all of it was copied. Waits for readers of an older
/// state up to the busy timeout.
pub(crate) fn copy_log(connection: &Connection, ownership: &Ownership) -> bool {
    checkpoint::run(connection, ownership, Mode::Full).is_some_and(Copied::is_whole)
}

/// Logs what was found and what to do. `complete`: the database file holds everything.
pub(crate) fn log_loss(ownership: &Ownership, (lost, complete): (Lost, bool)) {
    let file = format!("{}{}", ownership.path().display(), lost.suffix());
    match (lost, complete) {
        (Lost::Database, _) => tracing::error!(
            "{file} was moved, removed or replaced; writes are refused until it is restored. If it was deleted, copy {} \
             before you stop this server: it is the database, {}",
            ownership.descriptor(),
            if complete { "with everything that was acknowledged" } else { "without the end of its log" },
        ),
        (_, true) => tracing::error!(
            "{file} was moved, removed or replaced; everything that was acknowledged is in the database file now. Writes \
             are refused: find out who touches the files of the database, then start the server again"
        ),
        (_, false) => tracing::error!(
            "{file} was moved, removed or replaced, and its log could not be moved into the database file yet: do NOT stop \
             this server, it tries again. Writes are refused"
        ),
    }
    if (lost, complete) == (Lost::Log, true) {
        rename_foreign_log(ownership);
    }
}

/// Another file in the place of our log, for example an older copy, would be used at the next start and undo newer
/// writes. It is renamed, never deleted.
fn rename_foreign_log(ownership: &Ownership) {
    let log = path_of(ownership.path(), Lost::Log);
    if !log.exists() {
        return;
    }
    let mut target = log.clone().into_os_string();
    target.push(FOREIGN_SUFFIX);
    let target = Path::new(&target);
    let renamed = match target.exists() {
        true => Err(std::io::ErrorKind::AlreadyExists.into()),
        false => std::fs::rename(&log, target),
    };
    let (log, target) = (log.display(), target.display());
    match renamed {
        Ok(()) => tracing::warn!("{log} was not written by this server; it was renamed to {target}"),
        Err(error) => {
            tracing::error!(%error, "{log} was not written by this server: move it away before the server is started again")
        }
    }
}
