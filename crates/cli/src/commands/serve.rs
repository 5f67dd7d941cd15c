//! `taskqueue serve`: opens the socket and the store, and runs the server until a signal.

mod check;
mod database_wait;
mod greeting;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use taskqueue_core::settings::Retention;
use taskqueue_server::auth::{SharedTokens, Token};
use taskqueue_server::{Config, ListenAddress, ListenError, Listener, Listeners};
use taskqueue_store::command::CreateQueue;
use taskqueue_store::{StoreError, StoreExt};
use tracing::{info, warn};

pub(crate) use self::check::check;
use self::greeting::Greeting;
use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::notify_socket::{self, NotifySocket};
use crate::open_store::Database;
use crate::server_signals::{Reloads, ServerSignals};
use crate::server_tls::{self, Encrypted};
use crate::{file_limit, logging, token, tokens_file, unknown_variables};

/// The address is bound before the database is opened: a start that fails because the address is in use leaves no file
/// behind, and clients that connect while a large database is opened wait instead of being refused.
pub(crate) async fn run(args: ServeArgs) -> Result<(), Failure> {
    file_limit::raise_limit();
    let notify = NotifySocket::from_environment();
    let token = token::load(args.secrets.token_file.as_deref(), std::env::var_os(token::VARIABLE))?;
    let tokens = match &args.secrets.tokens {
        Some(path) => Some(OpenTokens::load(path).await?),
        None => None,
    };
    let has_token = token.is_some() || tokens.as_ref().is_some_and(|tokens| tokens.count > 0);
    let signals =
        ServerSignals::listen().map_err(|error| Failure::Refused(format!("cannot listen for signals: {error}")))?;
    let listener = bind(&args.listen, has_token, "--listen").await?;
    let address = listener.local_address().map_or_else(|| listener.base_url(), |address| address.to_string());
    let file = args.config.as_ref().map(|path| path.display().to_string());
    info!(version = env!("CARGO_PKG_VERSION"), database = %args.database, address, config = file, "taskqueue starts");
    unknown_variables::warn_of_them();
    let Encrypted { listener, client_command } =
        server_tls::encrypt(listener, &args.secrets.tls, &args.database, signals.reloads())?;
    if let (Some(path), Some(token)) = (&args.secrets.token_file, &token) {
        tokio::spawn(token::follow(path.clone(), token.clone(), signals.reloads()));
    }
    let tokens = tokens.map(|tokens| tokens.follow(signals.reloads()));
    let config = config(&args, token, tokens, &listener);
    let listeners = Listeners { api: listener, metrics: bind_metrics(args.metrics_listen.as_ref()).await? };
    let Some(store) = database_wait::open(&args, &listeners, &config, &signals, &notify).await? else { return Ok(()) };
    let greeting = Greeting::new(&listeners.api, config.dashboard, client_command, has_token, args.queues.first());
    for queue in args.queues {
        let create = CreateQueue { queue, retention: config.default_retention };
        store.write(create).await.map_err(refused)?;
    }
    if let Some(pause) = notify.watchdog_interval() {
        let is_elsewhere = matches!(args.database, Database::Postgres(_));
        tokio::spawn(notify_socket::feed_watchdog(notify.clone(), Arc::clone(&store), is_elsewhere, pause));
    }
    let ready = || {
        greeting.print();
        notify.ready(&format!("serving at {}", greeting.base_url()));
    };
    let stop = async {
        signals.stop().await;
        notify.stopping("stopping: requests under way are finished");
    };
    taskqueue_server::run(listeners, store, config, ready, stop, signals.stop_at_once()).await.map_err(refused)
}

fn config(args: &ServeArgs, token: Option<Token>, tokens: Option<SharedTokens>, listener: &Listener) -> Config {
    let (defaults, kept_seconds) = (Config::new(token), args.default_retention.map(|time| time.as_secs()));
    Config {
        allowed_hosts: args.allowed_hosts.clone(),
        dashboard: args.dashboard.into(),
        default_retention: Retention {
            succeeded_seconds: kept_seconds,
            failed_seconds: kept_seconds,
            cancelled_seconds: kept_seconds,
        },
        log_requests: args.log_requests,
        log_lines_lost: Some(logging::lost_lines),
        stop_delay: args.stop_delay,
        // From 0 to 16 MiB.
        task_output_bytes: usize::try_from(args.task_output_bytes).unwrap_or_default(),
        tokens,
        ..if listener.tls().is_some() { defaults.with_tls() } else { defaults }
    }
}

/// A tokens file that was read.
struct OpenTokens {
    path: PathBuf,
    text: String,
    tokens: SharedTokens,
    count: usize,
}

impl OpenTokens {
    async fn load(path: &Path) -> Result<Self, Failure> {
        let (tokens, text) = tokens_file::load_settled(path).await.map_err(Failure::Refused)?;
        let count = tokens.len();
        Ok(Self { path: path.to_owned(), text, tokens: SharedTokens::new(tokens_file::token_set(tokens)), count })
    }

    /// Its tokens, which change with the file from now on.
    fn follow(self, reloads: Reloads) -> SharedTokens {
        tokio::spawn(tokens_file::watch(self.path, self.text, self.tokens.clone(), reloads));
        self.tokens
    }
}

async fn bind(address: &ListenAddress, has_token: bool, flag: &str) -> Result<Listener, Failure> {
    Listener::bind(address, has_token).await.map_err(|error| cannot_listen(&error, flag))
}

fn cannot_listen(error: &ListenError, flag: &str) -> Failure {
    let advice = match error {
        ListenError::NeedsToken(_) => {
            "set TASKQUEUE_TOKEN, --token-file, or --tokens with a token in it, or listen on 127.0.0.1".to_owned()
        }
        ListenError::InUse(_) => format!("stop it or choose another {flag}"),
        ListenError::NotASocket(_) | ListenError::UnixWithTls | ListenError::Failed(..) => {
            format!("choose another {flag}")
        }
    };
    Failure::Refused(format!("{error}; {advice}"))
}

/// Metrics need no token there, wherever that is: they tell counts and the names of queues and routes, and nothing of tasks.
async fn bind_metrics(address: Option<&ListenAddress>) -> Result<Option<Listener>, Failure> {
    let Some(address) = address else { return Ok(None) };
    let listener = bind(address, true, "--metrics-listen").await?;
    if listener.is_public() {
        warn!(
            "{address} can be reached from other machines: everybody there can read the metrics, with the names of queues \
             and routes"
        );
    }
    Ok(Some(listener))
}

/// The store has logged the cause.
fn refused(error: StoreError) -> Failure {
    Failure::Refused(format!("the database cannot be written: {error}; see the log lines above"))
}
