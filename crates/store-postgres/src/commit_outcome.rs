//! Whether a transaction was committed whose connection was lost during `COMMIT`.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::open::Connector;
use crate::statements as sql;
use crate::transaction::TransactionId;

/// How long to ask. Callers wait for the writer for 5 seconds at most.
const TIMEOUT: Duration = Duration::from_secs(4);
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Whether the transaction was committed; nothing if the database cannot tell, or not in time.
pub(crate) async fn find_commit_outcome(connector: &Connector, id: Option<TransactionId>) -> Option<bool> {
    let (id, begun) = (id?, Instant::now());
    while begun.elapsed() < TIMEOUT {
        match query_status(connector, &id).await {
            Some((status, true)) if status == "committed" => return Some(true),
            // The database has crashed since, and may have given the id to another transaction.
            Some((status, false)) if status == "committed" => break,
            Some((status, _)) if status == "aborted" => return Some(false),
            // The server process is still committing, or the database is starting.
            _ => sleep(RETRY_PAUSE).await,
        }
    }
    let transaction = id.number;
    tracing::error!(
        transaction,
        "the connection was lost during COMMIT; whether the transaction was committed is not known"
    );
    None
}

async fn query_status(connector: &Connector, id: &TransactionId) -> Option<(String, bool)> {
    let session = connector.session(&[]).await.ok()?;
    let row = session.first(&sql::CHECK_TRANSACTION, &[&id.number, &id.crash_epoch]).await.ok()??;
    Some((row.try_get(0).ok()?, row.try_get(1).ok()?))
}

#[cfg(test)]
#[path = "commit_outcome_tests.rs"]
mod tests;
