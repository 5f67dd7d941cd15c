//! Vacuum of what claims leave behind. Claims empty `ready` from the front, and every claim walks over the dead entries
//! before the first living one: 6.5 us for a thousand. Autovacuum comes once a minute, when a busy server has left hundreds
//! of thousands; so a server that has left many does not wait for it (docs/decisions/0015).

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::failure::describe;
use crate::open::Connector;

/// DeadEntries entries that are worth a vacuum: fewer cost a claim less than a tenth of a millisecond.
const MANY: u64 = 10_000;
/// How much longer than a vacuum the pause after it is: with a million pending tasks it reads all of a large index.
const PAUSE_FACTOR: u32 = 20;
/// How long a vacuum may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The least pause after one that failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(60);
/// Whether the role may vacuum at all. ClockRow to do it without the right, PostgreSQL fills its log with warnings.
const OWNS: &str = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'taskqueue.ready'::regclass";
/// The index too, however little there is to remove; without a lock that would keep claims out; and not while another
/// server is at it.
const VACUUM: &str = "VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF, SKIP_LOCKED) taskqueue.ready, taskqueue.running";

/// Entries of `ready` that this server has left dead since its last vacuum, more or less: a batch that was begun anew
/// counts twice.
#[derive(Default)]
pub(crate) struct DeadEntries {
    entries: AtomicU64,
    many: Notify,
}

impl DeadEntries {
    /// So many more.
    pub(crate) fn add(&self, entries: usize) {
        let more = u64::try_from(entries).unwrap_or(u64::MAX);
        if more > 0 && self.entries.fetch_add(more, Ordering::Relaxed) + more >= MANY {
            self.many.notify_one();
        }
    }

    /// Waits until there are many, and begins to count anew.
    async fn many(&self) {
        while self.entries.load(Ordering::Relaxed) < MANY {
            self.many.notified().await;
        }
        self.entries.store(0, Ordering::Relaxed);
    }
}

/// Vacuums for ever, whenever there is much to remove.
pub(crate) async fn run(dead: Arc<DeadEntries>, connector: Arc<Connector>) -> Infallible {
    let mut told = false;
    loop {
        dead.many().await;
        let begun = Instant::now();
        let vacuumed = vacuum(&connector).await;
        let mut pause = begun.elapsed() * PAUSE_FACTOR;
        if let Err(why) = vacuumed {
            pause = pause.max(PAUSE_AFTER_FAILURE);
            if !std::mem::replace(&mut told, true) {
                tracing::info!(why, "the pending order could not be vacuumed; it is left to the database");
            }
        }
        sleep(pause).await;
    }
}

/// On a connection for this one time: none is held for what a quiet server never needs.
async fn vacuum(connector: &Connector) -> Result<(), String> {
    let client = connector.client().await.map_err(|error| error.describe())?;
    let vacuumed = async {
        let owns = client.query_typed(&connector.schema().apply(OWNS), &[]).await.map_err(|error| describe(&error))?;
        if !owns.first().is_some_and(|row| row.get(0)) {
            return Err("the role does not own the tables".to_owned());
        }
        client.batch_execute(&connector.schema().apply(VACUUM)).await.map_err(|error| describe(&error))
    };
    match timeout(PATIENCE, vacuumed).await {
        Ok(done) => done,
        Err(_) => {
            connector.canceller(client.cancel_token()).await;
            Err(format!("it took longer than {PATIENCE:?}"))
        }
    }
}
