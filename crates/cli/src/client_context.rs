//! What every client command needs: the client, the queue and the printer, made from the configuration; the runtime; and commands to copy
//! into a shell.

use std::time::Duration;

use taskqueue_client::{Client, Config, ConfigError, QueueName, Retries, TraceParent};
use taskqueue_core::shell::CommandLine;
use tokio::runtime::Builder;

use crate::args::{ConnectionArgs, OutputArgs, QueueArg};
use crate::config::{ClientConfig, Source, Sourced, Trust, read_authorities};
use crate::explain_error::explain;
use crate::failure::{CommandError, Failure};
use crate::output::{self, Printer};

/// The timeout of commands that do their own retries. Their requests are small; one that takes longer counts as lost.
const SHORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of times that the client repeats a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retrying {
    Interactive,
    LongRunning,
    /// The command repeats requests itself, and soon.
    Never,
    /// The command repeats requests itself; they may be large.
    NeverButPatient,
}

#[derive(Debug)]
pub(crate) struct ClientContext {
    pub(crate) client: Client,
    pub(crate) queue: QueueName,
    pub(crate) url: String,
    pub(crate) config: ClientConfig,
    pub(crate) printer: Printer,
}

impl ClientContext {
    /// Makes the client and prints warnings about the configuration. Sends nothing yet.
    pub(crate) fn open(
        connection: &ConnectionArgs,
        queue: &QueueArg,
        output: OutputArgs,
        retrying: Retrying,
    ) -> Result<Self, Failure> {
        let config = ClientConfig::load(connection, queue)?;
        print_warnings(&config);
        config.check_token_flag()?;
        Ok(Self {
            client: client(&config, retrying)?,
            queue: config.queue.value.clone(),
            url: config.url.value.clone(),
            config,
            printer: Printer::new(output),
        })
    }

    /// Runs a client command on one thread, turns a failed call into a message and prints the server's warnings. `filter` is the filter
    /// expression of the command, for messages about it.
    pub(crate) fn run<F>(&self, filter: Option<&str>, command: F) -> Result<(), Failure>
    where
        F: AsyncFnOnce(&Self) -> Result<(), CommandError>,
    {
        // Starting more threads takes longer than most commands run.
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Failure::because("cannot start"))?;
        let outcome = runtime.block_on(async {
            let outcome = match command(self).await {
                Ok(()) => Ok(()),
                Err(CommandError::Failure(failure)) => Err(failure),
                Err(CommandError::Call(error)) => Err(explain(self, error, filter).await),
            };
            self.print_server_warnings();
            outcome
        });
        // A lookup of a host name cannot be interrupted; the command does not wait for one that it no longer needs.
        runtime.shutdown_background();
        outcome
    }

    pub(crate) fn print_server_warnings(&self) {
        while let Some(warning) = self.client.take_warning() {
            output::warning(&warning.to_string());
        }
    }
}

/// Prints what is ignored in the configuration, and which token is not sent.
pub(crate) fn print_warnings(config: &ClientConfig) {
    for warning in &config.warnings {
        output::warning(warning);
    }
    if let Some(note) = config.withheld_note() {
        output::note(&note);
    }
}

fn client(config: &ClientConfig, retrying: Retrying) -> Result<Client, Failure> {
    let tries_of =
        |tries| Retries { tries, first_pause: Duration::from_millis(100), longest_pause: Duration::from_secs(5) };
    let retries = match retrying {
        // Somebody waits for the answer.
        Retrying::Interactive => tries_of(3),
        // About half a minute: enough for a server to restart.
        Retrying::LongRunning => tries_of(12),
        Retrying::Never | Retrying::NeverButPatient => Retries::NONE,
    };
    let mut client = Config::new(&config.url.value).map_err(|error| config_failure(&error, config))?.retries(retries);
    if retrying == Retrying::Never {
        client = client.request_timeout(SHORT_TIMEOUT);
    }
    if let Some(token) = &config.token {
        client = client.token(token.value.expose()).map_err(|error| config_failure(&error, config))?;
    }
    if config.allow_insecure_token.value {
        client = client.allow_insecure_token();
    }
    if let Some(Sourced { value, source }) = &config.trust {
        let trusting = match value {
            Trust::Pins(pins) => client.trust_keys(pins.clone()),
            Trust::Authorities(path) => client.trust_authorities(&read_authorities(path, source)?),
        };
        client = trusting.map_err(|error| config_failure(&error, config))?;
    }
    let client = Client::new(client).map_err(|error| config_failure(&error, config))?;
    // The trace that this command is a part of: that of the run in which it is called, or of any other caller who says so.
    Ok(client.traced(std::env::var("TRACEPARENT").ok().and_then(|text| TraceParent::parse(&text))))
}

/// Names the source of the wrong value.
fn config_failure(error: &ConfigError, config: &ClientConfig) -> Failure {
    let Sourced { value: url, source } = &config.url;
    match error {
        ConfigError::BaseUrl { reason } => Failure::Usage(format!("the URL {url} ({source}) cannot be used: {reason}")),
        ConfigError::Token => {
            let source = config.token.as_ref().map(|token| token.source.to_string()).unwrap_or_default();
            Failure::Usage(format!("the token ({source}) must be visible ASCII characters without blanks"))
        }
        ConfigError::InsecureToken => Failure::Refused(format!(
            "the token would be sent unencrypted to {url} ({source}); use https:// or --allow-insecure-token"
        )),
        ConfigError::TrustWithoutTls => Failure::Usage(format!(
            "the TLS pin or authorities ({}) are for https:// only, and the URL is {url} ({source})",
            trust_source(config)
        )),
        ConfigError::Authorities { reason } => {
            Failure::Usage(format!("the file of TLS authorities ({}) cannot be used: {reason}", trust_source(config)))
        }
        other => Failure::Refused(other.to_string()),
    }
}

fn trust_source(config: &ClientConfig) -> String {
    config.trust.as_ref().map(|trust| trust.source.to_string()).unwrap_or_default()
}

/// Returns a command to copy into a shell, for the same server and queue as the command that prints it. `words` are subcommands, such as
/// `task list`. What the environment and the files configure is not repeated, because the next command finds it there, too.
pub(crate) fn command_line(context: &ClientContext, words: &str) -> CommandLine {
    let command = server_command_line(context, words);
    match context.config.queue.source {
        Source::BuiltIn => command,
        _ => command.flag("--queue", context.queue.as_str()),
    }
}

/// Returns a command that names its queue itself, such as `queue resume`.
pub(crate) fn server_command_line(context: &ClientContext, words: &str) -> CommandLine {
    let mut command = CommandLine::new(words);
    if matches!(context.config.url.source, Source::Flag(_)) {
        command = command.flag("--url", &context.url);
    }
    if let Some(Sourced { value, source: Source::Flag(flag) }) = &context.config.trust {
        command = command.flag(flag, &value.text());
    }
    command
}
