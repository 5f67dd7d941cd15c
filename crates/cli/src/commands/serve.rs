//! `taskqueue serve`: opens the socket and the store, waits for a database that does not answer yet, and runs the server until a signal;
//! `serve --check` reads what a start would read, and prints what would count. It opens no port and no database, and writes nothing, so
//! that it can run beside the server that it is about.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use taskqueue_core::ids::QueueName;
use taskqueue_core::settings::Retention;
use taskqueue_server::auth::{SharedTokens, Token};
use taskqueue_server::{Config, DashboardMode, Limits, ListenAddress, ListenError, Listener, Listeners, answer_until};
use taskqueue_store::command::CreateQueue;
use taskqueue_store::{Store, StoreError, StoreExt};
use tokio::select;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::args::{OutputArgs, ServeArgs};
use crate::config::{DEFAULT_QUEUE, DEFAULT_URL, Setting};
use crate::failure::Failure;
use crate::open_store::{self, Database, NotOpened};
use crate::output::{self, Printer};
use crate::server_process::{NotifySocket, ServerSignals, feed_watchdog, raise_file_limit, warn_of_unknown_variables};
use crate::{logging, server_tls, token, tokens_file};

/// The address is bound before the database is opened: a start that fails because the address is in use leaves no file
/// behind, and clients that connect while a large database is opened wait instead of being refused.
pub(crate) async fn run(args: ServeArgs) -> Result<(), Failure> {
    raise_file_limit();
    let notify = NotifySocket::from_environment();
    let token = token::load(args.secrets.token_file.as_deref(), std::env::var_os(token::VARIABLE))?;
    let tokens = match &args.secrets.tokens {
        Some(path) => Some(tokens_file::load_settled(path).await.map_err(Failure::Refused)?),
        None => None,
    };
    let has_token = token.is_some() || tokens.as_ref().is_some_and(|(tokens, _)| !tokens.is_empty());
    let signals = ServerSignals::listen().map_err(Failure::because("cannot listen for signals"))?;
    let listener = bind(&args.listen, has_token, "--listen").await?;
    let address = listener.local_address().map_or_else(|| listener.base_url(), |address| address.to_string());
    let file = args.config.as_ref().map(|path| path.display().to_string());
    info!(version = env!("CARGO_PKG_VERSION"), database = %args.database, address, config = file, "taskqueue starts");
    warn_of_unknown_variables();
    let (listener, client_command) =
        server_tls::encrypt(listener, &args.secrets.tls, &args.database, signals.reloads.clone())?;
    if let (Some(path), Some(token)) = (&args.secrets.token_file, &token) {
        tokio::spawn(token::watch(path.clone(), token.clone(), signals.reloads.clone()));
    }
    let tokens = args.secrets.tokens.clone().zip(tokens).map(|(path, (tokens, text))| {
        let shared = SharedTokens::new(tokens_file::token_set(tokens));
        tokio::spawn(tokens_file::watch(path, text, shared.clone(), signals.reloads.clone()));
        shared
    });
    let config = config(&args, token, tokens, &listener);
    let listeners = Listeners { api: listener, metrics: bind_metrics(args.metrics_listen.as_ref()).await? };
    let Some(store) = open_database(&args, &listeners, &config, &signals, &notify).await? else { return Ok(()) };
    let greeting = greeting(&listeners.api, config.dashboard, client_command, has_token, args.queues.first());
    let base_url = listeners.api.base_url();
    for queue in args.queues {
        store.write(CreateQueue { queue, retention: config.limits.default_retention }).await.map_err(refused)?;
    }
    if let Some(most) = notify.watchdog {
        // Every half of what the manager allows between two signs of life.
        let is_elsewhere = matches!(args.database, Database::Postgres(_));
        tokio::spawn(feed_watchdog(notify.clone(), Arc::clone(&store), is_elsewhere, most / 2));
    }
    let ready = || {
        greeting.iter().for_each(|line| output::text(line));
        notify.ready(&format!("serving at {base_url}"));
    };
    let stop = async {
        signals.told_to_stop(1).await;
        notify.stopping("stopping: requests under way are finished");
    };
    taskqueue_server::run(listeners, store, config, ready, stop, signals.told_to_stop(2)).await.map_err(refused)
}

fn config(args: &ServeArgs, token: Option<Token>, tokens: Option<SharedTokens>, listener: &Listener) -> Config {
    let (defaults, kept) = (Config::new(token), args.default_retention.map(|time| time.as_secs()));
    let defaults = if listener.tls().is_some() { defaults.with_tls() } else { defaults };
    let default_retention = Retention { succeeded_seconds: kept, failed_seconds: kept, cancelled_seconds: kept };
    // From 0 to 16 MiB.
    let task_output_bytes = usize::try_from(args.task_output_bytes).unwrap_or_default();
    let limits = Limits { default_retention, task_output_bytes, ..defaults.limits };
    Config {
        allowed_hosts: args.allowed_hosts.clone(),
        dashboard: args.dashboard.into(),
        limits,
        log_requests: args.log_requests,
        log_lines_lost: Some(logging::lost_lines),
        stop_delay: args.stop_delay,
        tokens,
        ..defaults
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

/// The lines that a server prints when it is ready: its base URL for programs, what clients need to trust it, and on a terminal also where
/// to look and how to begin. `queue` is one that is there.
fn greeting(
    listener: &Listener,
    dashboard: DashboardMode,
    client_command: Option<String>,
    has_token: bool,
    queue: Option<&QueueName>,
) -> Vec<String> {
    let (base_url, is_terminal) = (listener.base_url(), io::stdout().is_terminal());
    let dashboard = listener.dashboard_url().filter(|_| is_terminal && dashboard != DashboardMode::Off);
    let dashboard = dashboard.map(|url| format!("dashboard: {url}"));
    // With TLS it depends on the certificate what a client has to be told.
    let has_begin = is_terminal && base_url.starts_with("http://");
    let begin = has_begin.then(|| begin_line(&base_url, has_token, queue));
    [Some(base_url), client_command, dashboard, begin].into_iter().flatten().collect()
}

/// Commands for somebody who has never used this.
fn begin_line(url: &str, has_token: bool, queue: Option<&QueueName>) -> String {
    let token = if has_token { " with the token in TASKQUEUE_TOKEN" } else { "" };
    let server = if url == DEFAULT_URL { String::new() } else { format!("export TASKQUEUE_URL={url}; ") };
    let queue = match queue {
        None => format!("taskqueue queue create {DEFAULT_QUEUE}; "),
        Some(name) if name.as_str() == DEFAULT_QUEUE => String::new(),
        Some(name) => format!("export TASKQUEUE_QUEUE={name}; "),
    };
    format!(
        "to begin, in another terminal{token}: {server}{queue}taskqueue task submit --arg text=hello; \
         taskqueue loop -- echo %{{text}}"
    )
}

/// Between two tries. An attempt itself ends after the `connect_timeout` of the URL, 3 seconds.
const PAUSE: Duration = Duration::from_millis(500);

/// The open store; none if the server was told to stop while it waited.
async fn open_database(
    args: &ServeArgs,
    listeners: &Listeners,
    config: &Config,
    signals: &ServerSignals,
    notify: &NotifySocket,
) -> Result<Option<Arc<dyn Store>>, Failure> {
    let began = Instant::now();
    let failure = match open_store::open(args).await {
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
            () = signals.told_to_stop(1) => Ok(None),
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
        match open_store::open(args).await {
            Ok(store) => return Ok(store),
            Err(NotOpened { may_pass: true, .. }) if Instant::now() < end => {}
            Err(NotOpened { failure, .. }) => return Err(failure),
        }
    }
}

/// All problems at once are one failure: whoever corrects one should not have to ask again for the next.
pub(crate) async fn check(args: ServeArgs) -> Result<(), Failure> {
    warn_of_unknown_variables();
    let problems = problems(&args).await;
    if !problems.is_empty() {
        return Err(Failure::Usage(problems.join("; ")));
    }
    let settings: Vec<Setting> = args.settings.into_iter().chain([token_setting()]).collect();
    Printer::new(OutputArgs::of(args.output)).list(&settings)
}

/// The one setting that is no flag. Its value is never shown.
fn token_setting() -> Setting {
    let (value, source) = match std::env::var_os(token::VARIABLE) {
        Some(_) => ("set, not shown", format!("environment {}", token::VARIABLE)),
        None => ("not set", "default".to_owned()),
    };
    Setting { name: "token".to_owned(), value: value.to_owned(), source }
}

async fn problems(args: &ServeArgs) -> Vec<String> {
    let token = token::load(args.secrets.token_file.as_deref(), std::env::var_os(token::VARIABLE));
    let tokens = args.secrets.tokens.as_deref().map(tokens_file::load).transpose();
    // A file that cannot be read may hold a token: that is one problem and not two.
    let has_token = match (&token, &tokens) {
        (Ok(None), Ok(tokens)) => tokens.as_ref().is_some_and(|tokens| !tokens.is_empty()),
        _ => true,
    };
    let outcomes = [
        token.map(drop),
        tokens.map(drop).map_err(Failure::Refused),
        check_address(Some(&args.listen), has_token, "--listen").await,
        // Metrics need no token.
        check_address(args.metrics_listen.as_ref(), true, "--metrics-listen").await,
        server_tls::check(&args.listen, &args.secrets.tls, &args.database),
        open_store::refuse_schema("--database-schema", &args.database, args.database_schema.as_deref()),
        check_folder(&args.database),
    ];
    let failures = outcomes.into_iter().filter_map(Result::err);
    failures.filter_map(|failure| failure.message().map(str::to_owned)).collect()
}

async fn check_address(address: Option<&ListenAddress>, has_token: bool, flag: &str) -> Result<(), Failure> {
    let Some(address) = address else { return Ok(()) };
    Listener::check(address, has_token).await.map(drop).map_err(|error| cannot_listen(&error, flag))
}

/// An SQLite file may be missing, its folder not.
fn check_folder(database: &Database) -> Result<(), Failure> {
    let Database::Sqlite(path) = database else { return Ok(()) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let problem = if path.is_dir() {
        format!("the database {} is a folder; name a file", path.display())
    } else if !folder.is_dir() {
        format!("there is no folder {} for the database", folder.display())
    } else {
        return Ok(());
    };
    Err(Failure::Refused(problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_to_begin_with_are_those_for_this_server() {
        let queue = |name| QueueName::parse(name).unwrap();
        let rest = "taskqueue task submit --arg text=hello; taskqueue loop -- echo %{text}";
        let cases = [
            (DEFAULT_URL, false, None, ": taskqueue queue create default; "),
            (DEFAULT_URL, false, Some(queue("default")), ": "),
            (DEFAULT_URL, true, Some(queue("q")), " with the token in TASKQUEUE_TOKEN: export TASKQUEUE_QUEUE=q; "),
            ("http://[::1]:9", false, Some(queue("default")), ": export TASKQUEUE_URL=http://[::1]:9; "),
        ];
        for (url, has_token, queue, words) in cases {
            let expected = format!("to begin, in another terminal{words}{rest}");
            assert_eq!(begin_line(url, has_token, queue.as_ref()), expected);
        }
    }
}
