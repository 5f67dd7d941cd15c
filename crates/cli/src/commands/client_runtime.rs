//! Runs a client command on one thread, turns failed calls into messages and prints the server's warnings.

use tokio::runtime::Builder;

use crate::client_context::ClientContext;
use crate::explain_error::explain;
use crate::failure::{CommandError, Failure};

/// `filter` is the filter expression of the command, for messages about it.
pub(super) fn run<F>(context: &ClientContext, filter: Option<&str>, command: F) -> Result<(), Failure>
where
    F: AsyncFnOnce(&ClientContext) -> Result<(), CommandError>,
{
    // Starting more threads takes longer than most commands run.
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Refused(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(async {
        let outcome = command(context).await;
        let failure = match outcome {
            Ok(()) => None,
            Err(CommandError::Failure(failure)) => Some(failure),
            Err(CommandError::Call(error)) => Some(explain(context, error, filter).await),
        };
        context.print_server_warnings();
        failure.map_or(Ok(()), Err)
    });
    // A lookup of a host name cannot be interrupted; the command does not wait for one that it no longer needs.
    runtime.shutdown_background();
    outcome
}
