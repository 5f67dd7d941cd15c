//! What every client command needs: the client, the queue and the printer, made from the configuration.

use std::time::Duration;

use taskqueue_client::{Client, Config, ConfigError, QueueName, Retries, TraceParent};

use crate::args::{ConnectionArgs, OutputArgs, QueueArg};
use crate::config::{ClientConfig, Secret, Source, Sourced, Trust, read_authorities};
use crate::failure::Failure;
use crate::output::{self, Printer};

/// Somebody waits for the answer.
const INTERACTIVE_RETRIES: Retries =
    Retries { tries: 3, first_pause: Duration::from_millis(100), longest_pause: Duration::from_secs(5) };

/// About half a minute: enough for a server to restart.
const LONG_RUNNING_RETRIES: Retries =
    Retries { tries: 12, first_pause: Duration::from_millis(100), longest_pause: Duration::from_secs(5) };

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
    pub(crate) queue_source: Source,
    pub(crate) url: String,
    pub(crate) url_source: Source,
    pub(crate) token: Option<Secret>,
    pub(crate) trust: Option<Sourced<Trust>>,
    pub(crate) token_source: Option<Source>,
    /// Explains why no token is sent although there is one.
    pub(crate) withheld_note: Option<String>,
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
            withheld_note: config.withheld_note(),
            queue: config.queue.value,
            queue_source: config.queue.source,
            url: config.url.value,
            url_source: config.url.source,
            token_source: config.token.as_ref().map(|token| token.source.clone()),
            token: config.token.map(|token| token.value),
            trust: config.trust,
            printer: Printer::new(output),
        })
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
    let retries = match retrying {
        Retrying::Interactive => INTERACTIVE_RETRIES,
        Retrying::LongRunning => LONG_RUNNING_RETRIES,
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
    Ok(client.traced(trace()))
}

/// The trace that this command is a part of: that of the run in which it is called, or of any other caller who says so.
fn trace() -> Option<TraceParent> {
    TraceParent::parse(&std::env::var("TRACEPARENT").ok()?)
}

/// Names the source of the wrong value.
fn config_failure(error: &ConfigError, config: &ClientConfig) -> Failure {
    let url = &config.url;
    match error {
        ConfigError::BaseUrl { reason } => {
            Failure::Usage(format!("the URL {} ({}) cannot be used: {reason}", url.value, url.source))
        }
        ConfigError::Token => {
            let source = config.token.as_ref().map(|token| token.source.to_string()).unwrap_or_default();
            Failure::Usage(format!("the token ({source}) must be visible ASCII characters without blanks"))
        }
        ConfigError::InsecureToken => Failure::Refused(format!(
            "the token would be sent unencrypted to {} ({}); use https:// or --allow-insecure-token",
            url.value, url.source
        )),
        ConfigError::TrustWithoutTls => Failure::Usage(format!(
            "the TLS pin or authorities ({}) are for https:// only, and the URL is {} ({})",
            trust_source(config),
            url.value,
            url.source
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
