//! The client itself: one call from its first try to its result. The endpoints are in `endpoints/`.

use std::sync::Arc;

use crate::answer::Answer;
use crate::call::Call;
use crate::config::{Config, ConfigError};
use crate::error::Error;
use crate::exchange::Exchange;
use crate::retries::{self, Retries};
use crate::version::{OldServer, Version, Warnings};

/// A client of one server. Cloning it is cheap; clones share their connections and warnings.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    exchange: Exchange,
    retries: Retries,
    warnings: Warnings,
}

impl Client {
    /// A client for the server that `config` describes. Nothing is sent yet.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let exchange = Exchange::new(&config)?;
        Ok(Self(Arc::new(Inner { exchange, retries: config.retries, warnings: Warnings::default() })))
    }

    /// A warning that nobody has taken yet: a server answered that is older than this client. There is one for each
    /// version, however many answers it gave; their results count all the same.
    pub fn take_warning(&self) -> Option<OldServer> {
        self.0.warnings.take()
    }

    /// The version that the server named last; nothing if it never did, which proves nothing.
    pub fn server_version(&self) -> Option<Version> {
        self.0.warnings.latest()
    }

    /// Sends a call, again where that is harmless and may help, and gives what `read` finds in its answer.
    pub(crate) async fn perform<T>(&self, call: Call, read: impl Fn(&Answer) -> Result<T, Error>) -> Result<T, Error> {
        let (mut failed, mut earlier_open) = (0, false);
        loop {
            let error = match self.send(&call).await.and_then(|answer| read(&answer)) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            failed += 1;
            let again = call.is_repeatable && error.is_passing();
            let pause = again.then(|| self.0.retries.pause(failed, error.retry_after(), retries::chance())).flatten();
            let Some(pause) = pause else { return Err(call.final_error(error, earlier_open)) };
            earlier_open |= error.leaves_outcome_open();
            tokio::time::sleep(pause).await;
        }
    }

    async fn send(&self, call: &Call) -> Result<Answer, Error> {
        let answer = self.0.exchange.send(call).await?;
        if let Some(version) = &answer.server_version {
            self.0.warnings.note(version);
        }
        Ok(answer)
    }
}
