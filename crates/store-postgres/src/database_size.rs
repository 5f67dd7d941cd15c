//! How large the tables are, for metrics. Nobody waits for it: it is measured in the background when somebody has asked and the last
//! measurement is old, because it waits for whoever rebuilds a table, and an engine that resembles PostgreSQL may not know it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use crate::readers::{Lane, Readers};
use crate::reads::Read;
use crate::rows;
use crate::session::Session;
use crate::statements as sql;

/// How long a measurement counts.
const KEPT: Duration = Duration::from_secs(60);
/// The pause after one that failed: each failure is logged.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(600);

#[derive(Default)]
pub(crate) struct DatabaseSize(Mutex<Measured>);

#[derive(Default)]
struct Measured {
    bytes: Option<u64>,
    /// When to measure again; at once if nothing is there.
    due: Option<Instant>,
    is_under_way: bool,
}

impl DatabaseSize {
    /// The last measurement, if there is one. Begins a new one if it is time for it.
    pub(crate) fn known(self: &Arc<Self>, readers: &Arc<Readers>) -> Option<u64> {
        let mut measured = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !measured.is_under_way && measured.due.is_none_or(|due| Instant::now() >= due) {
            measured.is_under_way = true;
            tokio::spawn(Arc::clone(self).measure(Arc::clone(readers)));
        }
        measured.bytes
    }

    async fn measure(self: Arc<Self>, readers: Arc<Readers>) {
        let answer = readers.read(Lane::Short, "measuring the tables", &(), |session, ()| bytes(session).boxed()).await;
        let pause = if answer.is_ok() { KEPT } else { PAUSE_AFTER_FAILURE };
        let mut measured = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *measured = Measured { bytes: answer.ok(), due: Some(Instant::now() + pause), is_under_way: false };
    }
}

async fn bytes(session: &Session) -> Read<u64> {
    let row = session.first(&sql::MEASURE_TABLES, &[]).await?;
    Ok(row.map_or(Ok(0), |row| rows::count(&row, "bytes"))?)
}
