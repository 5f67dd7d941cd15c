//! Whether the server can change single members of args and metadata.

use taskqueue_client::{Update, capabilities};

use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};

/// Refuses patches for a server that does not know them. Reading the args, changing them here and writing them back would
/// lose what others write in between.
pub(super) async fn require(context: &ClientContext, update: &Update) -> Result<(), CommandError> {
    if !update.has_patches() || context.client.capabilities().await?.has(capabilities::MERGE_UPDATES) {
        return Ok(());
    }
    Err(Failure::Refused(format!(
        "the server at {} is too old to change single members of args and metadata ({}); update the server, or replace \
         them as a whole with taskqueue task update --args JSON or --metadata JSON",
        context.url,
        capabilities::MERGE_UPDATES
    ))
    .into())
}
