//! How client commands are configured: each value from the first source that has it, and which one that was. Flags come
//! first, then the environment, then the nearest `taskqueue.toml`, then the user's file, then what is built in.

mod file;
mod secret;
mod sources;

use taskqueue_core::ids::QueueName;

pub(crate) use self::secret::Secret;
pub(crate) use self::sources::Sources;

use crate::args::{ConnectionArgs, QueueArg};
use crate::failure::Failure;

/// Where a server is unless somebody says otherwise: where `taskqueue serve` listens.
const DEFAULT_URL: &str = "http://127.0.0.1:8000";
const DEFAULT_QUEUE: &str = "default";

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) source: String,
}

/// One value as it is shown to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) source: String,
}

/// The way to a server and a queue.
#[derive(Debug)]
pub(crate) struct ClientConfig {
    pub(crate) url: Sourced<String>,
    pub(crate) queue: Sourced<QueueName>,
    pub(crate) token: Option<Sourced<Secret>>,
    pub(crate) allow_insecure_token: Sourced<bool>,
}

impl ClientConfig {
    /// The configuration of this process.
    pub(crate) fn load(connection: &ConnectionArgs, queue: &QueueArg) -> Result<Self, Failure> {
        Self::resolve(connection, queue, &Sources::of_process()?)
    }

    /// What the flags and the other sources come to.
    pub(crate) fn resolve(connection: &ConnectionArgs, queue: &QueueArg, sources: &Sources) -> Result<Self, Failure> {
        let flag = |name: &str| format!("flag {name}");
        let url = connection.url.clone().map(|value| Sourced { value, source: flag("--url") });
        let queue = queue.queue.clone().map(|value| Sourced { value, source: flag("--queue") });
        let queue = match queue {
            Some(queue) => Some(queue),
            None => sources.queue()?,
        };
        let insecure = connection.allow_insecure_token;
        let insecure = insecure.then(|| Sourced { value: true, source: flag("--allow-insecure-token") });
        let token = match &connection.token_file {
            Some(path) => Some(Sourced { value: Secret::from_file(path)?, source: flag("--token-file") }),
            None => sources.token()?,
        };
        Ok(Self {
            url: url.or_else(|| sources.url()).unwrap_or_else(|| built_in(DEFAULT_URL.to_owned())),
            queue: match queue {
                Some(queue) => queue,
                None => built_in(sources::queue_of(DEFAULT_QUEUE, "default")?),
            },
            token,
            allow_insecure_token: insecure
                .or_else(|| sources.allow_insecure_token())
                .unwrap_or_else(|| built_in(false)),
        })
    }

    /// Every value for people, the token only as being there.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let token = self.token.as_ref();
        vec![
            setting("url", &self.url.value, &self.url.source),
            setting("queue", self.queue.value.as_str(), &self.queue.source),
            setting("token", token.map_or("not set", |_| "set"), token.map_or("-", |token| &token.source)),
            setting(
                "allow_insecure_token",
                if self.allow_insecure_token.value { "true" } else { "false" },
                &self.allow_insecure_token.source,
            ),
        ]
    }
}

fn built_in<T>(value: T) -> Sourced<T> {
    Sourced { value, source: "default".to_owned() }
}

fn setting(name: &'static str, value: &str, source: &str) -> Setting {
    Setting { name, value: value.to_owned(), source: source.to_owned() }
}

#[cfg(test)]
mod tests;
