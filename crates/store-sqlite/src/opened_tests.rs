//! A store in a folder of its own, for tests that also look into its file.

use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};
use taskqueue_core::time::Timestamp;
use taskqueue_store::Store;
use taskqueue_store::clock::ManualClock;
use taskqueue_store::conformance::any_command::Write;
use taskqueue_store::conformance::commands::create_queue;
use tempfile::TempDir;

use crate::{Options, SqliteStore};

/// When the clock begins.
pub(crate) const BEGIN: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

pub(crate) struct Opened {
    pub(crate) store: SqliteStore,
    pub(crate) clock: ManualClock,
    folder: TempDir,
}

impl Opened {
    /// With the queue `q`.
    pub(crate) async fn new() -> Self {
        let opened = Self::open(tempfile::tempdir().unwrap(), ManualClock::new(BEGIN));
        opened.ok(create_queue("q")).await;
        opened
    }

    fn open(folder: TempDir, clock: ManualClock) -> Self {
        let store = SqliteStore::open(&file(&folder), Arc::new(clock.clone()), &Options::default()).unwrap();
        Self { store, clock, folder }
    }

    /// Closed and opened again.
    pub(crate) async fn again(self) -> Self {
        let Self { store, clock, folder } = self;
        store.close().await;
        drop(store);
        Self::open(folder, clock)
    }

    pub(crate) async fn ok<W: Write>(&self, command: W) -> W::Answer {
        command.write_to(&self.store).await.unwrap()
    }

    /// How many rows of the file these are: a table, or a table and a condition.
    pub(crate) fn count(&self, rows: &str) -> i64 {
        let file = Connection::open_with_flags(file(&self.folder), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        file.query_row(&format!("SELECT count(*) FROM {rows}"), [], |row| row.get(0)).unwrap()
    }
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("tasks.db")
}
