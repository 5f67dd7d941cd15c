//! Places where a store can be: a file, or a schema of a PostgreSQL database; and a storage that goes from one to the next.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use taskqueue_store::Store;
use taskqueue_store::conformance::ManualClock;
use taskqueue_store::conformance::Storage;
use taskqueue_store::transfer::{Source, Target, Totals, TransferError, transfer};
use taskqueue_store_postgres::{Address, PostgresStore, PostgresTransfer};
use taskqueue_store_sqlite::{SqliteStore, SqliteTransfer};
use taskqueue_test_postgres::{Cluster, Database};
use tempfile::TempDir;

/// What kind of place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Schema,
}

/// A fresh place, gone when dropped.
pub(crate) enum Place {
    File(TempDir),
    Schema(Database),
}

/// Another schema than the usual one, so that nothing can rely on its name.
const SCHEMA: &str = "some where";

impl Place {
    pub(crate) fn new(kind: Kind) -> Self {
        match kind {
            Kind::File => Self::File(tempfile::tempdir().unwrap()),
            Kind::Schema => Self::Schema(Cluster::shared().database()),
        }
    }

    fn file(directory: &TempDir) -> PathBuf {
        directory.path().join("q.db")
    }

    pub(crate) async fn open(&self, clock: ManualClock) -> Arc<dyn Store> {
        match self {
            Self::File(directory) => {
                let opened = SqliteStore::open(&Self::file(directory), Arc::new(clock), &Default::default());
                Arc::new(opened.unwrap_or_else(|error| panic!("{error}")))
            }
            Self::Schema(database) => {
                let mut options = taskqueue_store_postgres::Options { schema: SCHEMA.to_owned(), ..Default::default() };
                options.clock = Some(Arc::new(clock));
                let store = PostgresStore::open(Address::parse(&database.url()).unwrap(), options).await;
                Arc::new(store.unwrap_or_else(|error| panic!("{error}")))
            }
        }
    }

    pub(crate) async fn source(&self) -> Result<Box<dyn Source>, TransferError> {
        Ok(match self {
            Self::File(directory) => Box::new(SqliteTransfer::source(&Self::file(directory))?),
            Self::Schema(database) => {
                Box::new(PostgresTransfer::source(Address::parse(&database.url()).unwrap(), SCHEMA).await?)
            }
        })
    }

    pub(crate) async fn target(&self) -> Result<Box<dyn Target>, TransferError> {
        Ok(match self {
            Self::File(directory) => Box::new(SqliteTransfer::target(&Self::file(directory))?),
            Self::Schema(database) => {
                Box::new(PostgresTransfer::target(Address::parse(&database.url()).unwrap(), SCHEMA).await?)
            }
        })
    }

    pub(crate) async fn move_to(&self, other: &Self) -> Result<Totals, TransferError> {
        let mut source = self.source().await?;
        transfer(&mut *source, other.target().await?, &mut |_| {}).await
    }

    /// What is derived from tasks is what the tasks say.
    pub(crate) fn assert_consistent(&self) {
        let Self::Schema(database) = self else { return };
        let count = |sql: &str| database.rows(&sql.replace("here.", &format!("\"{SCHEMA}\".")))[0][0].clone().unwrap();
        let differences = [
            "SELECT count(*) FROM (SELECT queue_key, routes, status, count(*) FROM here.tasks
                WHERE queue_key IN (SELECT queue_key FROM here.queues) GROUP BY 1, 2, 3
             EXCEPT SELECT queue_key, routes, status, sum(tasks) FROM here.tally GROUP BY 1, 2, 3) AS different",
            "SELECT count(*) FROM (SELECT queue_key, task_key, priority, pending_seq, jsonb_array_elements_text(routes::jsonb)
                FROM here.tasks WHERE status = 'pending' AND queue_key IN (SELECT queue_key FROM here.queues)
                AND unmet IS NULL AND task_key NOT IN (SELECT task_key FROM here.delayed)
             EXCEPT SELECT queue_key, task_key, priority, pending_seq, route FROM here.ready) AS different",
            // What cannot be claimed yet is beside the pending order, and only that.
            "SELECT count(*) FROM here.tasks JOIN here.ready USING (task_key) WHERE unmet IS NOT NULL",
            "SELECT count(*) FROM here.delayed LEFT JOIN here.tasks USING (queue_key, not_before, task_key)
                WHERE tasks.unmet IS NOT NULL OR tasks.status IS DISTINCT FROM 'pending'",
            "SELECT count(*) FROM (SELECT task_key FROM here.tasks WHERE status = 'running'
             EXCEPT SELECT task_key FROM here.running) AS different",
            "SELECT count(*) FROM (SELECT run_id FROM here.tasks WHERE run_id IS NOT NULL
                UNION SELECT finished_run_id FROM here.tasks WHERE finished_run_id IS NOT NULL
             EXCEPT SELECT run_id FROM here.runs) AS different",
        ];
        for sql in differences {
            assert_eq!(count(sql), "0", "{sql}");
        }
    }
}

/// A storage that is moved to a fresh place each time that it is opened again.
pub(crate) struct Moving {
    kinds: Vec<Kind>,
    state: Mutex<(usize, Option<Place>)>,
}

impl Moving {
    /// Through places of these kinds, again and again.
    pub(crate) fn through(kinds: &[Kind]) -> Self {
        Self { kinds: kinds.to_vec(), state: Mutex::new((0, None)) }
    }

    pub(crate) fn assert_consistent(&self) {
        self.state.lock().unwrap().1.as_ref().unwrap().assert_consistent();
    }
}

impl Storage for Moving {
    fn keeps_activity(&self) -> bool {
        false
    }

    async fn open(&self, clock: ManualClock) -> Arc<dyn Store> {
        let (opened, last) = {
            let mut state = self.state.lock().unwrap();
            state.0 += 1;
            (state.0 - 1, state.1.take())
        };
        let place = Place::new(self.kinds[opened % self.kinds.len()]);
        if let Some(last) = last {
            last.move_to(&place).await.unwrap_or_else(|error| panic!("{error}"));
            place.assert_consistent();
        }
        let store = place.open(clock).await;
        self.state.lock().unwrap().1 = Some(place);
        store
    }
}
