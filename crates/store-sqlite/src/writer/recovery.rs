//! What the writer does when something went wrong: a transaction that was given up, a storage that failed, a file of the
//! database that is not where it was or could not be synced.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Writer;
use crate::failure::failed;
use crate::ownership::Lost;
use crate::{lost_files, open};

/// Pause between two attempts to open a failed database again.
const REOPEN_PAUSE: Duration = Duration::from_millis(500);

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
        self.figures.failed();
        // What could not be committed may be there all the same.
        self.trackers.invalidate();
        self.fail();
        self.reopen();
    }

    pub(super) fn fail(&mut self) {
        self.failed_at = Some(Instant::now());
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Looks for the files of the database. If one is missing no more writes are taken, and what was committed is written
    /// into the database file; true if all of it is there and will be found.
    pub(super) fn holds_files(&mut self) -> bool {
        let Some(lost) = self.ownership.lost() else {
            self.lost = None;
            return true;
        };
        let try_again = self.failed_at.is_none_or(|at| at.elapsed() >= REOPEN_PAUSE);
        if self.lost.is_none_or(|(was, whole)| was != lost || !whole && try_again) {
            self.fail();
            let paused = self.checkpointer.pause();
            let found = (lost, lost_files::copy_log(&self.connection, &self.ownership));
            drop(paused);
            if self.lost != Some(found) {
                lost_files::log_loss(&self.ownership, found);
            }
            self.lost = Some(found);
        }
        lost != Lost::Database && self.lost == Some((lost, true))
    }

    /// Whether what is committed stays in the log until it is known to be in the database file. If not, it is so until a
    /// restart: a reopen would keep SQLite's count of copied pages.
    pub(super) fn keeps_log(&mut self) -> bool {
        if self.ownership.copying_failed() {
            self.fail();
        }
        !self.ownership.copying_failed()
    }

    /// Whether writes can be taken: the log can be trusted, the paths lead to our files, and after a failure the file was
    /// opened again.
    pub(super) fn ready(&mut self) -> bool {
        if !self.keeps_log() {
            return false;
        }
        if !self.holds_files() || self.lost.is_some() {
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
        if !self.keeps_log() || !self.ownership.is_intact() {
            return;
        }
        let opened = open::writer(self.ownership.path()).and_then(|mut connection| {
            self.checkpointer.watch(&mut connection)?;
            open::prove_writable(&connection)?;
            self.claim_index.reload(&connection)?;
            self.claim_index.no_scan_after(self.clock.now());
            Ok(connection)
        });
        match opened {
            // The new connection opened the log by its name; it must be the one that all others have.
            Ok(_) if !self.ownership.is_intact() => {}
            Ok(connection) => {
                self.connection = connection;
                // The time of the last scan is kept in memory too, and there it may be the newer one.
                self.scanned_at = self.scanned_at.max(self.claim_index.last_scan_at);
                self.claim_index.last_scan_at = self.scanned_at;
                self.failed_at = None;
                self.failed.store(false, Ordering::Relaxed);
                tracing::info!("the database was opened again after a failure");
                // What could not be committed may be in the file all the same, and no waiter was woken for it.
                self.wake_by_index();
            }
            Err(error) => drop(failed("opening the database again", &error)),
        }
    }
}
