//! When counted activity is saved: at a fixed interval, and once more at a stop. What is saved and how is decided in the store
//! (docs/decisions/0059).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use taskqueue_store::Store;
use taskqueue_store::activity::save_activity;
use tokio::time::timeout;
use tracing::warn;

use crate::repeated;

/// What a crash may lose.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long saving may take at a stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Saves for ever. Dropping this future ends that.
pub(crate) async fn run(store: Arc<dyn Store>) -> Infallible {
    let save = move || {
        let store = Arc::clone(&store);
        async move { save_activity(&*store).await }
    };
    repeated::run("saving activity", INTERVAL, save).await
}

/// Saves what is left, when nothing is counted any more.
pub(crate) async fn flush(store: &dyn Store) {
    match timeout(STOP_TIMEOUT, save_activity(store)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!(%error, "the activity of the last seconds could not be saved"),
        Err(_) => warn!("the activity of the last seconds could not be saved in time"),
    }
}
