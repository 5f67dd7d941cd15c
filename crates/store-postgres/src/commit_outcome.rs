//! What became of a transaction whose connection was lost while it committed.

use std::time::{Duration, Instant};

use crate::open::Connector;
use crate::statements as sql;
use crate::transaction::Name;

/// How long the database is asked. Others wait for the writer meanwhile, for 5 seconds at most.
const PATIENCE: Duration = Duration::from_secs(4);
/// Pause between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// Whether the transaction of this name was committed; nothing when that cannot be found out in time, or not any more.
pub(crate) async fn find_commit_outcome(connector: &Connector, name: Option<Name>) -> Option<bool> {
    let (name, begun) = (name?, Instant::now());
    while begun.elapsed() < PATIENCE {
        match ask(connector, &name).await {
            Some((status, true)) if status == "committed" => return Some(true),
            // After a crash the name may be that of another transaction. If so, or if the other one failed, ours is lost.
            Some((status, false)) if status == "committed" => break,
            Some((status, _)) if status == "aborted" => return Some(false),
            // Its backend has not noticed yet that nobody listens, or the database is starting.
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
    let transaction = name.number;
    tracing::error!(transaction, "the connection was lost while committing, and what became of it is not known");
    None
}

async fn ask(connector: &Connector, name: &Name) -> Option<(String, bool)> {
    let session = connector.session(&[]).await.ok()?;
    let row = session.first(&sql::SETTLE_TRANSACTION, &[&name.number, &name.life]).await.ok()??;
    Some((row.try_get(0).ok()?, row.try_get(1).ok()?))
}

#[cfg(test)]
#[path = "commit_outcome_tests.rs"]
mod tests;
