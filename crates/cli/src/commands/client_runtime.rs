//! Runs a client command to its end: one thread, warnings told, failed calls explained.

use tokio::runtime::Builder;

use crate::explain_error::explain;
use crate::failure::{Failure, Stop};
use crate::session::Session;

/// Runs `command` with the session. `filter` is the expression that it was given, for messages about it.
pub(super) fn run<F>(session: &Session, filter: Option<&str>, command: F) -> Result<(), Failure>
where
    F: AsyncFnOnce(&Session) -> Result<(), Stop>,
{
    // Threads would cost more time to start than most commands take.
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Refused(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let outcome = command(session).await;
        let failure = match outcome {
            Ok(()) => None,
            Err(Stop::Failure(failure)) => Some(failure),
            Err(Stop::Call(error)) => Some(explain(session, error, filter).await),
        };
        session.warn();
        failure.map_or(Ok(()), Err)
    })
}
