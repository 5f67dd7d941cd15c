//! Runs a client command on one thread, turns failed calls into messages and prints the server's warnings.

use tokio::runtime::Builder;

use crate::explain_error::explain;
use crate::failure::{CommandError, Failure};
use crate::session::Session;

/// `filter` is the filter expression of the command, for messages about it.
pub(super) fn run<F>(session: &Session, filter: Option<&str>, command: F) -> Result<(), Failure>
where
    F: AsyncFnOnce(&Session) -> Result<(), CommandError>,
{
    // Starting more threads takes longer than most commands run.
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Refused(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let outcome = command(session).await;
        let failure = match outcome {
            Ok(()) => None,
            Err(CommandError::Failure(failure)) => Some(failure),
            Err(CommandError::Call(error)) => Some(explain(session, error, filter).await),
        };
        session.print_server_warnings();
        failure.map_or(Ok(()), Err)
    })
}
