//! From the configuration to a client, and what every client command works with.

use std::time::Duration;

use taskqueue_client::{Client, Config, ConfigError, QueueName, Retries};

use crate::args::{ConnectionArgs, OutputArgs, QueueArg};
use crate::config::{ClientConfig, Secret, Source};
use crate::failure::Failure;
use crate::output::{self, Printer};

/// How long a command tries again before it says that the server cannot be reached: people wait for the answer.
const BRIEF: Retries =
    Retries { tries: 3, first_pause: Duration::from_millis(100), longest_pause: Duration::from_secs(5) };

/// The same for commands that run long: a server that is being restarted is waited for, about half a minute.
const PATIENT: Retries =
    Retries { tries: 12, first_pause: Duration::from_millis(100), longest_pause: Duration::from_secs(5) };

/// A live view asks again by itself, and its questions are small: what takes longer than this is as good as lost.
const LIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How much a command bears before it gives up on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Somebody waits for the answer.
    Brief,
    /// The command runs long anyway.
    Long,
    /// The command goes on without the answer and asks again by itself.
    None,
}

/// What a client command works with.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) queue: QueueName,
    /// Where the server is, for messages.
    pub(crate) url: String,
    /// Who says so.
    pub(crate) url_source: Source,
    /// The token that is shown to the server.
    pub(crate) token: Option<Secret>,
    /// Why a token that is there is not shown to it.
    pub(crate) withheld_note: Option<String>,
    pub(crate) printer: Printer,
}

impl Session {
    /// Makes the client and tells what does not count. Nothing is sent yet.
    pub(crate) fn open(
        connection: &ConnectionArgs,
        queue: &QueueArg,
        output: OutputArgs,
        patience: Patience,
    ) -> Result<Self, Failure> {
        let config = ClientConfig::load(connection, queue)?;
        tell(&config);
        config.check_flags()?;
        Ok(Self {
            client: client(&config, patience)?,
            withheld_note: config.withheld_note(),
            queue: config.queue.value,
            url: config.url.value,
            url_source: config.url.source,
            token: config.token.map(|token| token.value),
            printer: Printer::new(output.output),
        })
    }

    /// Tells what the client has to say about the server, each thing once.
    pub(crate) fn warn(&self) {
        while let Some(warning) = self.client.take_warning() {
            output::warning(&warning.to_string());
        }
    }
}

/// Tells what was found in the configuration and does not count, and which token is not sent.
pub(crate) fn tell(config: &ClientConfig) {
    for warning in &config.warnings {
        output::warning(warning);
    }
    if let Some(note) = config.withheld_note() {
        output::note(&note);
    }
}

fn client(config: &ClientConfig, patience: Patience) -> Result<Client, Failure> {
    let retries = match patience {
        Patience::Brief => BRIEF,
        Patience::Long => PATIENT,
        Patience::None => Retries::NONE,
    };
    let mut client = Config::new(&config.url.value).map_err(|error| wrong(&error, config))?.retries(retries);
    if patience == Patience::None {
        client = client.request_timeout(LIVE_TIMEOUT);
    }
    if let Some(token) = &config.token {
        client = client.token(token.value.expose()).map_err(|error| wrong(&error, config))?;
    }
    if config.allow_insecure_token.value {
        client = client.allow_insecure_token();
    }
    Client::new(client).map_err(|error| wrong(&error, config))
}

/// What is wrong with the configuration, and which source to mend.
fn wrong(error: &ConfigError, config: &ClientConfig) -> Failure {
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
            "the token would travel readably to {} ({}); use https://, or say --allow-insecure-token",
            url.value, url.source
        )),
        other => Failure::Refused(other.to_string()),
    }
}
