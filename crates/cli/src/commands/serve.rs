//! `taskqueue serve`: opens the socket and the store, and runs the server until a signal.

use std::future::Future;
use std::io;

use taskqueue_server::{Config, ListenAddress, ListenError, Listener};
use taskqueue_store::command::CreateQueue;
use taskqueue_store::{StoreError, StoreExt};
use tokio::select;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::{file_limit, open_store, output, token};

/// The address is bound before the database is opened: a start that fails because the address is in use leaves no file
/// behind, and clients that connect while a large database is opened wait instead of being refused.
pub(crate) async fn run(args: ServeArgs) -> Result<(), Failure> {
    file_limit::raise_limit();
    let token = token::load(args.token_file.as_deref(), std::env::var_os(token::VARIABLE))?;
    let stop = stop_signal().map_err(|error| Failure::Refused(format!("cannot listen for signals: {error}")))?;
    let listener = bind(&args.listen, token.is_some()).await?;
    let store = open_store::open(&args.database, args.database_schema.as_deref(), args.outage_credit).await?;
    for queue in args.queues {
        store.write(CreateQueue { queue }).await.map_err(refused)?;
    }
    let base_url = listener.base_url();
    let ready = || output::text(&base_url);
    let config = Config {
        allowed_hosts: args.allowed_hosts,
        log_requests: args.log_requests,
        // From 0 to 16 MiB.
        task_output_bytes: usize::try_from(args.task_output_bytes).unwrap_or_default(),
        ..Config::new(token)
    };
    taskqueue_server::run(listener, store, config, ready, stop).await.map_err(refused)
}

async fn bind(address: &ListenAddress, has_token: bool) -> Result<Listener, Failure> {
    Listener::bind(address, has_token).await.map_err(|error| {
        let advice = match error {
            ListenError::NeedsToken(_) => "set TASKQUEUE_TOKEN or --token-file, or listen on 127.0.0.1",
            ListenError::InUse(_) => "stop it or choose another --listen",
            ListenError::NotASocket(_) | ListenError::Failed(..) => "choose another --listen",
        };
        Failure::Refused(format!("{error}; {advice}"))
    })
}

/// The store has logged the cause.
fn refused(error: StoreError) -> Failure {
    Failure::Refused(format!("the database cannot be written: {error}; see the log lines above"))
}

/// Ends on SIGTERM or SIGINT. Signals that arrive before it is awaited are not lost.
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let name = select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        info!("received {name}");
    })
}
