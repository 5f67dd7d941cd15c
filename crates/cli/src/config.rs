//! How client commands are configured: each value from the first source that has it, and which one that was. Flags come
//! first, then the environment, then the nearest `taskqueue.toml`, then the user's file, then what is built in.
//! Which token may go to the URL that this gives is the business of `source.rs`.

mod contained_file;
mod file;
mod file_trust;
mod layers;
mod secret;
mod settings;
mod source;

use taskqueue_core::ids::QueueName;

pub(crate) use self::layers::Sources;
pub(crate) use self::secret::Secret;
pub(crate) use self::settings::Setting;
pub(crate) use self::source::{Source, Sourced};

use self::secret::TokenPlace;
use self::source::choose;
use crate::args::{ConnectionArgs, QueueArg};
use crate::failure::Failure;

/// Where a server is unless somebody says otherwise: where `taskqueue serve` listens.
const DEFAULT_URL: &str = "http://127.0.0.1:8000";
const DEFAULT_QUEUE: &str = "default";
const TOKEN_FILE_FLAG: &str = "--token-file";

/// The way to a server and a queue.
#[derive(Debug)]
pub(crate) struct ClientConfig {
    pub(crate) url: Sourced<String>,
    pub(crate) queue: Sourced<QueueName>,
    /// The token that goes to the URL.
    pub(crate) token: Option<Sourced<Secret>>,
    /// Where tokens are that must not go to the URL.
    pub(crate) withheld: Vec<Source>,
    pub(crate) allow_insecure_token: Sourced<bool>,
    /// What was found and does not count.
    pub(crate) warnings: Vec<String>,
}

impl ClientConfig {
    /// The configuration of this process.
    pub(crate) fn load(connection: &ConnectionArgs, queue: &QueueArg) -> Result<Self, Failure> {
        Self::resolve(connection, queue, &Sources::of_process()?)
    }

    /// What the flags and the other sources come to.
    pub(crate) fn resolve(connection: &ConnectionArgs, queue: &QueueArg, sources: &Sources) -> Result<Self, Failure> {
        let url = connection.url.clone().map(|value| Sourced { value, source: Source::Flag("--url") });
        let url = url.or_else(|| sources.url()).unwrap_or_else(|| built_in(DEFAULT_URL.to_owned()));
        let queue = match queue.queue.clone() {
            Some(value) => Some(Sourced { value, source: Source::Flag("--queue") }),
            None => sources.queue()?,
        };
        let queue = match queue {
            Some(queue) => queue,
            None => built_in(layers::queue_of(DEFAULT_QUEUE, &Source::BuiltIn)?),
        };
        let insecure = connection.allow_insecure_token;
        let insecure = insecure.then_some(Sourced { value: true, source: Source::Flag("--allow-insecure-token") });
        let insecure = insecure.or_else(|| sources.allow_insecure_token()).unwrap_or_else(|| built_in(false));
        let in_flag = connection.token_file.clone();
        let in_flag =
            in_flag.map(|path| Sourced { value: TokenPlace::File(path), source: Source::Flag(TOKEN_FILE_FLAG) });
        let choice = choose(&url.source, in_flag.into_iter().chain(sources.tokens()).collect());
        let token = choice.sent.map(|Sourced { value, source }| Ok(Sourced { value: value.read()?, source }));
        Ok(Self {
            url,
            queue,
            token: token.transpose()?,
            withheld: choice.withheld,
            allow_insecure_token: insecure,
            warnings: sources.warnings(),
        })
    }

    /// What to know about a token that is there and does not go to the URL, when none goes there.
    pub(crate) fn withheld_note(&self) -> Option<String> {
        let first = self.withheld.first().filter(|_| self.token.is_none())?;
        let Sourced { value: url, source } = &self.url;
        Some(format!(
            "the token ({first}) is not sent to {url}, because a project file names that URL ({source}); \
             to send it there, say --url {url} or set TASKQUEUE_URL"
        ))
    }

    /// Refuses a token that was asked for on the command line and must not be sent: sending another or none is not what
    /// the command line says.
    pub(crate) fn check_flags(&self) -> Result<(), Failure> {
        let Sourced { value: url, source } = &self.url;
        match self.withheld.contains(&Source::Flag(TOKEN_FILE_FLAG)) {
            true => Err(Failure::Usage(format!(
                "the token of {TOKEN_FILE_FLAG} is not sent to {url}, because a project file names that URL ({source}); \
                 to send it there, say --url {url} too"
            ))),
            false => Ok(()),
        }
    }
}

fn built_in<T>(value: T) -> Sourced<T> {
    Sourced { value, source: Source::BuiltIn }
}

#[cfg(test)]
mod tests;
