//! Asks the server once, before the first claim, whether it has all extensions that a worker uses, and whether it keeps what runs
//! print. A server that lacks one ends the worker.

use taskqueue_client::{Error, capabilities};
use tokio::sync::OnceCell;

use crate::context::WorkerContext;

/// What the server has said of itself.
#[derive(Debug, Default)]
pub(crate) struct ServerFeatures(OnceCell<KeptOutput>);

/// Whether the server keeps what runs print, which can be turned off there.
#[derive(Clone, Copy, Debug)]
struct KeptOutput(bool);

impl ServerFeatures {
    /// Whether the server has said that it keeps what runs print.
    pub(crate) fn has_output(&self) -> bool {
        self.0.get().is_some_and(|kept| kept.0)
    }
}

impl WorkerContext {
    /// Makes sure that the server is one for this worker. Slots that claim at the same time ask once.
    ///
    /// # Errors
    ///
    /// Those of a claim that was not sent.
    pub(crate) async fn require_server(&self) -> Result<(), Error> {
        let ask = || async {
            let answer = self.client.require_extensions().await.map_err(without_claim)?;
            Ok(KeptOutput(answer.has(capabilities::OUTPUT)))
        };
        self.features.0.get_or_try_init(ask).await.map(drop)
    }
}

/// The question may have arrived; the claim behind it was not sent.
fn without_claim(error: Error) -> Error {
    match error {
        Error::Transport { message, .. } => Error::Transport { message, may_have_arrived: false },
        error => error,
    }
}
