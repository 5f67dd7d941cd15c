//! A database file in a folder of its own, for every test of this backend; and a look into the file past the store.
#![allow(dead_code, reason = "each test file uses a part of this")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};
use taskqueue_store::Store;
use taskqueue_store::bulk::Gate;
use taskqueue_store::clock::ManualClock;
use taskqueue_store::conformance::{GatedStorage, Storage};
use taskqueue_store_sqlite::{OpenError, Options, SqliteStore};
use tempfile::TempDir;

/// A folder with a database file, removed when dropped.
pub(crate) struct Folder(TempDir);

/// A fresh folder.
pub(crate) fn fresh() -> Folder {
    Folder(tempfile::tempdir().unwrap())
}

impl Folder {
    /// The database file.
    pub(crate) fn file(&self) -> PathBuf {
        self.0.path().join("tasks.db")
    }

    /// Opens the store, or says why not.
    pub(crate) fn try_open(&self, clock: &ManualClock) -> Result<SqliteStore, OpenError> {
        SqliteStore::open(&self.file(), Arc::new(clock.clone()), &Options::default())
    }

    /// Looks into the file, past the store.
    pub(crate) fn look(&self) -> Connection {
        look(&self.file())
    }
}

impl Storage for Folder {
    async fn open(&self, clock: ManualClock) -> Arc<dyn Store> {
        Arc::new(self.try_open(&clock).unwrap())
    }
}

impl GatedStorage for Folder {
    async fn open_gated(&self, clock: ManualClock, bulk_gate: Gate) -> Arc<dyn Store> {
        let options = Options { bulk_gate, ..Options::default() };
        Arc::new(SqliteStore::open(&self.file(), Arc::new(clock), &options).unwrap())
    }
}

/// A read-only connection to a database file.
pub(crate) fn look(path: &Path) -> Connection {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

/// How many rows a query counts.
pub(crate) fn count(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// The kept counts equal the rows of the living queues, line by line, and no row stands alone.
pub(crate) fn assert_file_is_consistent(connection: &Connection) {
    let differences = "SELECT count(*) FROM (
        SELECT queue_key, routes, status, count(*) AS tasks FROM tasks
        WHERE queue_key IN (SELECT queue_key FROM queues) GROUP BY queue_key, routes, status";
    let tally = "SELECT queue_key, routes, status, tasks FROM tally)";
    assert_eq!(count(connection, &format!("{differences} EXCEPT {tally}")), 0, "a count is missing or wrong");
    let rows = differences.trim_start_matches("SELECT count(*) FROM (");
    let surplus = format!("SELECT count(*) FROM (SELECT queue_key, routes, status, tasks FROM tally EXCEPT {rows})");
    assert_eq!(count(connection, &surplus), 0, "a count is left over");
    for table in ["definitions", "outcomes", "past_runs"] {
        let alone = format!("SELECT count(*) FROM {table} WHERE task_key NOT IN (SELECT task_key FROM tasks)");
        assert_eq!(count(connection, &alone), 0, "{table} has rows without a task");
    }
    let bare = "SELECT count(*) FROM tasks WHERE task_key NOT IN (SELECT task_key FROM definitions)";
    assert_eq!(count(connection, bare), 0, "a task has no definition");
    let lost = "SELECT count(*) FROM tasks WHERE queue_key NOT IN (SELECT queue_key FROM queues)
        AND queue_key NOT IN (SELECT queue_key FROM purges)";
    assert_eq!(count(connection, lost), 0, "a task of a deleted queue would stay for ever");
    let owners = "SELECT count(*) FROM tasks WHERE (status = 'running') <> (run_id IS NOT NULL)";
    assert_eq!(count(connection, owners), 0, "a run exactly while running");
    let kept = "SELECT count(*) FROM deleted_runs WHERE run_id IN (SELECT run_id FROM past_runs
        UNION SELECT run_id FROM tasks UNION SELECT finished_run_id FROM tasks)";
    assert_eq!(count(connection, kept), 0, "a run is kept for a deleted task and has one that exists");
    let health: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(health, "ok");
}
