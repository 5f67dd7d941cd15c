//! A database file in a folder of its own, for every test of this backend; and a look into the file past the store.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use taskqueue_store::check::Watch;
use taskqueue_store::conformance::prelude::*;
use taskqueue_store_sqlite::{HistoryOptions, OpenError, Options, SqliteStore};
use tempfile::TempDir;

/// A folder with a database file, removed when dropped, and how it is opened.
pub(crate) struct Folder(TempDir, HistoryOptions);

/// A fresh folder.
pub(crate) fn fresh() -> Folder {
    Folder(tempfile::tempdir().unwrap(), HistoryOptions::default())
}

/// A fresh folder whose store writes the history with every transaction that adds to it.
pub(crate) fn flushing() -> Folder {
    Folder(tempfile::tempdir().unwrap(), HistoryOptions { flush_after: 1, ..HistoryOptions::default() })
}

/// A store in a fresh folder, with the queue `q`.
pub(crate) async fn with_queue() -> (Folder, Fixture) {
    let folder = fresh();
    let fixture = Fixture::with_queue(&folder).await;
    (folder, fixture)
}

impl Folder {
    /// The database file.
    pub(crate) fn file(&self) -> PathBuf {
        self.0.path().join("tasks.db")
    }

    /// Opens the store, or says why not.
    pub(crate) fn try_open(&self, clock: &ManualClock) -> Result<SqliteStore, OpenError> {
        let options = Options { history: self.1, ..Options::default() };
        SqliteStore::open(&self.file(), Arc::new(clock.clone()), &options)
    }

    /// Looks into the file, past the store.
    pub(crate) fn look(&self) -> Connection {
        Connection::open_with_flags(self.file(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
    }
}

impl Storage for Folder {
    async fn open(&self, clock: ManualClock) -> Arc<dyn Store> {
        Arc::new(self.try_open(&clock).unwrap())
    }
}

/// How many rows a query counts.
pub(crate) fn count(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// `taskqueue check` finds nothing wrong, also while a store is open.
pub(crate) fn assert_sound(path: &Path) {
    let report = taskqueue_store_sqlite::check(path, &mut Watch { stop: Arc::default(), report: &mut |_| {} }).unwrap();
    assert!(report.rules_checked && report.findings.is_sound(), "{report:#?}");
}
