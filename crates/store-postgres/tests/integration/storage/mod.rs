//! A database for each test, on one real server for all of them.

pub(crate) mod tables;

use taskqueue_store::conformance::prelude::*;
use taskqueue_store_postgres::{Address, OpenError, Options, PostgresStore};
use taskqueue_test_postgres::{Cluster, Database, patient};

/// A database of its own.
pub(crate) struct Fresh {
    pub(crate) database: Database,
}

/// A database in which nothing is yet.
pub(crate) fn fresh() -> Fresh {
    Fresh { database: Cluster::shared().database() }
}

/// A store in a fresh database, with the queue `q`.
pub(crate) async fn with_queue() -> (Fresh, Fixture) {
    let storage = fresh();
    let fixture = Fixture::with_queue(&storage).await;
    (storage, fixture)
}

impl Fresh {
    /// Opens the store at a time that the test passes.
    pub(crate) async fn try_open(&self, clock: &ManualClock) -> Result<PostgresStore, OpenError> {
        open(&patient(&self.database.url()), Some(Arc::new(clock.clone()))).await
    }
}

/// Opens a store.
pub(crate) async fn open(url: &str, clock: Option<Arc<dyn Clock>>) -> Result<PostgresStore, OpenError> {
    PostgresStore::open(Address::parse(url).unwrap(), Options { clock, ..Options::default() }).await
}

impl Storage for Fresh {
    async fn open(&self, clock: ManualClock) -> Arc<dyn Store> {
        Arc::new(self.try_open(&clock).await.unwrap_or_else(|error| panic!("{error}")))
    }
}
