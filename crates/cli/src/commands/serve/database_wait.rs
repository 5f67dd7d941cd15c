//! Opens the database of a server, and waits for one that does not answer yet: it may have been started at the same moment.

use std::sync::Arc;
use std::time::Duration;

use taskqueue_server::{Config, Listeners, answer_until};
use taskqueue_store::Store;
use tokio::select;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::notify_socket::NotifySocket;
use crate::open_store::{self, NotOpened};
use crate::server_signals::ServerSignals;

/// Between two tries. An attempt itself ends after the `connect_timeout` of the URL, 3 seconds.
const PAUSE: Duration = Duration::from_millis(500);

/// The open store; none if the server was told to stop while it waited.
pub(super) async fn open(
    args: &ServeArgs,
    listeners: &Listeners,
    config: &Config,
    signals: &ServerSignals,
    notify: &NotifySocket,
) -> Result<Option<Arc<dyn Store>>, Failure> {
    let began = Instant::now();
    let failure = match attempt(args).await {
        Ok(store) => return Ok(Some(store)),
        Err(NotOpened { failure, may_pass: true }) if !args.database_wait.is_zero() => failure,
        Err(NotOpened { failure, .. }) => return Err(failure),
    };
    let (reason, seconds) = (failure.message().unwrap_or_default(), args.database_wait.as_secs());
    warn!(reason, "the database does not answer; waiting for it for up to {seconds} s (--database-wait)");
    notify.status("waiting for the database");
    let opened = async {
        select! {
            opened = try_until(args, began + args.database_wait) => opened.map(Some),
            () = signals.stop() => Ok(None),
        }
    };
    let opened = answer_until(listeners, config, opened).await?;
    if opened.is_some() {
        info!("the database answers, after {} s", began.elapsed().as_secs());
    }
    Ok(opened)
}

async fn try_until(args: &ServeArgs, end: Instant) -> Result<Arc<dyn Store>, Failure> {
    loop {
        sleep(PAUSE).await;
        match attempt(args).await {
            Ok(store) => return Ok(store),
            Err(NotOpened { may_pass: true, .. }) if Instant::now() < end => {}
            Err(NotOpened { failure, .. }) => return Err(failure),
        }
    }
}

async fn attempt(args: &ServeArgs) -> Result<Arc<dyn Store>, NotOpened> {
    open_store::open(&args.database, args.database_schema.as_deref(), args.outage_credit).await
}
