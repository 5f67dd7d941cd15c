//! The configuration of client commands. Each value comes from the first source that has it: flags, then the environment,
//! then the nearest `taskqueue.toml`, then the user's file, then the built-in default. Which token may be sent to the
//! resulting URL is decided in `source.rs`.

mod contained_file;
mod file;
mod file_trust;
mod layers;
mod secret;
mod settings;
mod source;
mod trust;

use std::path::Path;

use taskqueue_core::ids::QueueName;

#[cfg(test)]
pub(crate) use self::file::keys as file_keys;
pub(crate) use self::layers::{DEFAULT_QUEUE, Layers, VARIABLES};
pub(crate) use self::secret::Secret;
pub(crate) use self::settings::Setting;
pub(crate) use self::source::{Source, Sourced};
pub(crate) use self::trust::{Trust, read_authorities};

use self::secret::TokenLocation;
use self::source::choose_token;
use self::trust::choose_trust;
use crate::args::{ConnectionArgs, QueueArg};
use crate::failure::Failure;

/// The address on which `taskqueue serve` listens by default.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:8000";
const TOKEN_FILE_FLAG: &str = "--token-file";

#[derive(Debug)]
pub(crate) struct ClientConfig {
    pub(crate) url: Sourced<String>,
    pub(crate) queue: Sourced<QueueName>,
    pub(crate) token: Option<Sourced<Secret>>,
    /// The sources of tokens that must not be sent to the URL.
    pub(crate) withheld: Vec<Source>,
    pub(crate) allow_insecure_token: Sourced<bool>,
    /// Whom to trust behind `https://` instead of the system's authorities.
    pub(crate) trust: Option<Sourced<Trust>>,
    /// Settings and files that are ignored.
    pub(crate) warnings: Vec<String>,
}

impl ClientConfig {
    pub(crate) fn load(connection: &ConnectionArgs, queue: &QueueArg) -> Result<Self, Failure> {
        Self::resolve(connection, queue, &Layers::load()?)
    }

    pub(crate) fn resolve(connection: &ConnectionArgs, queue: &QueueArg, layers: &Layers) -> Result<Self, Failure> {
        let url = connection.url.clone().map(|url| Sourced::new(url, Source::Flag("--url")));
        let url = url.or_else(|| layers.url());
        let url = url.unwrap_or_else(|| Sourced::new(DEFAULT_URL.to_owned(), Source::BuiltIn));
        let queue = match queue.queue.clone() {
            Some(queue) => Sourced::new(queue, Source::Flag("--queue")),
            None => layers.queue()?,
        };
        let insecure = connection.allow_insecure_token;
        let insecure = insecure.then_some(Sourced::new(true, Source::Flag("--allow-insecure-token")));
        let insecure = insecure.or_else(|| layers.allow_insecure_token());
        let insecure = insecure.unwrap_or_else(|| Sourced::new(false, Source::BuiltIn));
        let in_flag = connection.token_file.clone().map(TokenLocation::File);
        let in_flag = in_flag.map(|file| Sourced::new(file, Source::Flag(TOKEN_FILE_FLAG)));
        let choice = choose_token(&url.source, in_flag.into_iter().chain(layers.tokens()).collect());
        let token = choice.sent.map(|token| Ok(Sourced::new(token.value.read()?, token.source)));
        let (pin, authorities) = (connection.tls_pin.as_deref(), connection.tls_ca.as_deref());
        let flag = Source::Flag(if pin.is_some() { "--tls-pin" } else { "--tls-ca" });
        let in_flag = Trust::of(pin, authorities, Path::new(""), &flag)?;
        let (trust, ignored) = choose_trust(&url.source, in_flag.into_iter().chain(layers.trust()?).collect());
        let ignored = if trust.is_none() { ignored } else { Vec::new() };
        let ignored = ignored.iter().map(|from| ignored_trust(from, &url));
        let warnings = layers.warnings().into_iter().chain(ignored).collect();
        Ok(Self {
            trust,
            url,
            queue,
            token: token.transpose()?,
            withheld: choice.withheld,
            allow_insecure_token: insecure,
            warnings,
        })
    }

    /// Explains why no token is sent although there is one.
    pub(crate) fn withheld_note(&self) -> Option<String> {
        let first = self.withheld.first().filter(|_| self.token.is_none())?;
        let Sourced { value: url, source } = &self.url;
        Some(format!(
            "the token ({first}) is not sent to {url}, because a project file names that URL ({source}); \
             to send it there, add --url {url} or set TASKQUEUE_URL"
        ))
    }

    /// Refuses a token from the command line that must not be sent. Sending another token, or none, would silently do
    /// something else than the command line says.
    pub(crate) fn check_token_flag(&self) -> Result<(), Failure> {
        let Sourced { value: url, source } = &self.url;
        match self.withheld.contains(&Source::Flag(TOKEN_FILE_FLAG)) {
            true => Err(Failure::Usage(format!(
                "the token of {TOKEN_FILE_FLAG} is not sent to {url}, because a project file names that URL ({source}); \
                 to send it there, add --url {url}"
            ))),
            false => Ok(()),
        }
    }
}

/// Why what a file says about TLS does not count.
fn ignored_trust(from: &Source, url: &Sourced<String>) -> String {
    format!(
        "the TLS pin or authorities of {from} are ignored, because that file does not name the server {} ({}); \
         give --tls-pin or --tls-ca",
        url.value, url.source
    )
}

#[cfg(test)]
mod tests;
