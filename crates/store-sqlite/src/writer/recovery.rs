//! What the writer does when something went wrong: a transaction that was given up, a storage that failed, a file of the
//! database that is not where it was or could not be synced.
//!
//! When a file of the database was moved, removed or replaced, the files that are still open hold everything that was acknowledged:
//! it is written into the database file through the open connection, and no more writes are accepted. The server does not recover
//! by itself, because the cause may persist.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Writer;
use crate::checkpoint::{self, CheckpointResult};
use crate::open;
use crate::ownership::{DatabaseFile, Ownership, path_of};
use crate::queries::failed;

/// Pause between two attempts to open a failed database again.
const REOPEN_PAUSE: Duration = Duration::from_millis(500);

/// Suffix for a foreign file in the place of our log.
const FOREIGN_SUFFIX: &str = "-foreign";

impl Writer {
    /// After a transaction that was given up although the storage works: its time was over, or a command was broken.
    pub(super) fn undo(&mut self) {
        let rolled_back = self.connection.execute_batch("ROLLBACK");
        match rolled_back.and_then(|()| self.claim_index.reload(&self.connection)) {
            Ok(()) => self.claim_index.last_scan_at = self.scanned_at,
            Err(error) => {
                failed("undoing a transaction", &error);
                self.recover();
            }
        }
    }

    /// After a failed transaction: what the file holds is the truth, so the index is read again. If that fails too, the
    /// writer takes nothing until a reopen succeeds.
    pub(super) fn recover(&mut self) {
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        self.shared.figures.failed();
        // What could not be committed may be there all the same.
        self.shared.trackers.invalidate();
        self.fail();
        self.reopen();
    }

    pub(super) fn fail(&mut self) {
        self.failed_at = Some(Instant::now());
        self.shared.failed.store(true, Ordering::Relaxed);
    }

    /// Looks for the files of the database. If one is missing no more writes are taken, and what was committed is written
    /// into the database file; true if all of it is there and will be found.
    pub(super) fn holds_files(&mut self) -> bool {
        let Some(lost) = self.shared.ownership.lost() else {
            self.lost = None;
            return true;
        };
        let try_again = self.failed_at.is_none_or(|at| at.elapsed() >= REOPEN_PAUSE);
        if self.lost.is_none_or(|(was, whole)| was != lost || !whole && try_again) {
            self.fail();
            let paused = self.checkpointer.pause();
            // Waits for readers of an older state up to the busy timeout.
            let copied = checkpoint::run(&self.connection, &self.shared.ownership, checkpoint::FULL);
            let found = (lost, copied.is_some_and(CheckpointResult::is_whole));
            drop(paused);
            if self.lost != Some(found) {
                log_loss(&self.shared.ownership, found);
            }
            self.lost = Some(found);
        }
        lost != DatabaseFile::Database && self.lost == Some((lost, true))
    }

    /// Returns whether what is committed stays in the log until it is known to be in the database file. If not, it is so until a
    /// restart: a reopen would keep SQLite's count of copied pages.
    pub(super) fn keeps_log(&mut self) -> bool {
        if self.shared.ownership.copying_failed() {
            self.fail();
        }
        !self.shared.ownership.copying_failed()
    }

    /// Returns whether writes can be taken: the log can be trusted, the paths lead to our files, and after a failure the file was
    /// opened again.
    pub(super) fn ready(&mut self) -> bool {
        if !self.keeps_log() || !self.holds_files() || self.lost.is_some() {
            return false;
        }
        if self.failed_at.is_some_and(|at| at.elapsed() >= REOPEN_PAUSE) {
            self.fail();
            self.reopen();
        }
        self.failed_at.is_none()
    }

    /// Opens the file again, writes something, and reads everything that is kept in memory; only then are writes taken
    /// again. A full disk, for example, lets itself be opened.
    pub(super) fn reopen(&mut self) {
        if !self.keeps_log() || !self.shared.ownership.is_intact() {
            return;
        }
        let opened = open::writer(self.shared.ownership.path()).and_then(|mut connection| {
            self.checkpointer.watch(&mut connection)?;
            open::prove_writable(&connection)?;
            self.claim_index.reload(&connection)?;
            self.claim_index.no_scan_after(self.shared.clock.now());
            Ok(connection)
        });
        match opened {
            // The new connection opened the log by its name; it must be the one that all others have.
            Ok(_) if !self.shared.ownership.is_intact() => {}
            Ok(connection) => {
                self.connection = connection;
                // The time of the last scan is kept in memory too, and there it may be the newer one.
                self.scanned_at = self.scanned_at.max(self.claim_index.last_scan_at);
                self.claim_index.last_scan_at = self.scanned_at;
                self.failed_at = None;
                self.shared.failed.store(false, Ordering::Relaxed);
                tracing::info!("the database was opened again after a failure");
                // What could not be committed may be in the file all the same, and no waiter was woken for it.
                self.wake_by_index();
            }
            Err(error) => drop(failed("opening the database again", &error)),
        }
    }
}

/// Logs what was found and what to do. `complete`: the database file holds everything.
fn log_loss(ownership: &Ownership, (lost, complete): (DatabaseFile, bool)) {
    let file = format!("{}{}", ownership.path().display(), lost.suffix());
    match (lost, complete) {
        (DatabaseFile::Database, _) => tracing::error!(
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
    if (lost, complete) == (DatabaseFile::Log, true) {
        rename_foreign_log(ownership);
    }
}

/// Another file in the place of our log, for example an older copy, would be used at the next start and undo newer
/// writes. It is renamed, never deleted.
fn rename_foreign_log(ownership: &Ownership) {
    let log = path_of(ownership.path(), DatabaseFile::Log);
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
