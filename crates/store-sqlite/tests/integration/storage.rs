//! A database file in a folder of its own, for every test of this backend; and a look into the file past the store.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Row};
use taskqueue_store::check::{Report, Watch};
use taskqueue_store::conformance::prelude::*;
use taskqueue_store_sqlite::{HistoryOptions, OpenError, Options, PackedHead, SqliteStore};
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
        look(&self.file())
    }
}

impl Storage for Folder {
    async fn open(&self, clock: ManualClock) -> Arc<dyn Store> {
        Arc::new(self.try_open(&clock).unwrap())
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

fn list<T>(connection: &Connection, sql: &str, read: fn(&Row<'_>) -> rusqlite::Result<T>) -> Vec<T> {
    connection.prepare(sql).unwrap().query_map([], read).unwrap().collect::<Result<_, _>>().unwrap()
}

/// The queue, the status and the packed column of every task.
fn heads(connection: &Connection) -> Vec<(i64, String, Vec<u8>)> {
    list(connection, "SELECT queue_key, status, packed FROM tasks", |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
}

/// What `taskqueue check` says of a file.
pub(crate) fn report_of(path: &Path) -> Report {
    taskqueue_store_sqlite::check(path, &mut Watch { stop: Arc::default(), report: &mut |_| {} }).unwrap()
}

/// The kept counts equal the rows of the living queues, line by line, and no row stands alone.
pub(crate) fn assert_file_is_consistent(connection: &Connection) {
    let rows = heads(connection);
    let mut counted: BTreeMap<(i64, String, String), (i64, i64)> = BTreeMap::new();
    let mut run_ids = BTreeSet::new();
    for (queue_key, status, packed) in &rows {
        let head = PackedHead::unpack(packed).unwrap();
        assert_eq!(status == "running", head.run.is_some(), "a run exactly while running");
        run_ids.extend(head.run.map(|(run_id, _)| run_id));
        run_ids.extend(head.finished_run_id());
        let line = counted.entry((*queue_key, head.routes.to_owned(), status.clone())).or_default();
        *line = (line.0 + 1, line.1 + i64::from(head.extended.archived));
    }
    let living = list(connection, "SELECT queue_key FROM queues", |row| row.get::<_, i64>(0));
    counted.retain(|(queue_key, ..), _| living.contains(queue_key));
    let tally = list(connection, "SELECT queue_key, routes, status, tasks, archived FROM tally", |row| {
        Ok(((row.get(0)?, row.get(1)?, row.get(2)?), (row.get(3)?, row.get(4)?)))
    });
    assert_eq!(tally.into_iter().collect::<BTreeMap<_, _>>(), counted, "the kept counts are those of the rows");
    for table in ["definitions", "outcomes", "past_runs", "outputs", "output_pieces"] {
        let alone = format!("SELECT count(*) FROM {table} WHERE task_key NOT IN (SELECT task_key FROM tasks)");
        assert_eq!(count(connection, &alone), 0, "{table} has rows without a task");
    }
    let bare = "SELECT count(*) FROM tasks WHERE task_key NOT IN (SELECT task_key FROM definitions)";
    assert_eq!(count(connection, bare), 0, "a task has no definition");
    let lost = "SELECT count(*) FROM tasks WHERE queue_key NOT IN (SELECT queue_key FROM queues)
        AND queue_key NOT IN (SELECT queue_key FROM purges)";
    assert_eq!(count(connection, lost), 0, "a task of a deleted queue would stay for ever");
    let uncounted = "SELECT count(*) FROM activity WHERE queue_key NOT IN (SELECT queue_key FROM queues)
        AND queue_key NOT IN (SELECT queue_key FROM purges)";
    assert_eq!(count(connection, uncounted), 0, "activity of a deleted queue would stay for a year");
    let outcomes = "SELECT count(*) FROM tasks
        WHERE outcome_key IS NOT (SELECT task_key FROM outcomes WHERE outcomes.task_key = tasks.task_key)";
    assert_eq!(count(connection, outcomes), 0, "a task knows whether it has an outcome");
    let printed = "SELECT count(*) FROM output_pieces WHERE task_key NOT IN (SELECT task_key FROM outputs)";
    assert_eq!(count(connection, printed), 0, "pieces of output that nobody would read");
    let overlapping = "SELECT count(*) FROM output_pieces AS one JOIN output_pieces AS other USING (task_key)
        WHERE one.start < other.start AND one.start + length(one.bytes) > other.start";
    assert_eq!(count(connection, overlapping), 0, "two pieces of output have the same byte");
    let past = list(connection, "SELECT run_id FROM past_runs", |row| row.get::<_, String>(0));
    run_ids.extend(past.iter().map(String::as_str));
    for kept in list(connection, "SELECT run_id FROM deleted_runs", |row| row.get::<_, String>(0)) {
        assert!(!run_ids.contains(kept.as_str()), "{kept} is kept for a deleted task and has one that exists");
    }
    let health: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(health, "ok");
}
