//! The client: one call from its first try to its result. The endpoints are in `endpoints/`.

use std::sync::Arc;

use taskqueue_core::trace::TraceParent;

use crate::answer::Answer;
use crate::call::Call;
use crate::config::{Config, ConfigError};
use crate::error::Error;
use crate::retries::{self, Retries};
use crate::transport::Transport;
use crate::version::{OldServer, Version, Warnings};

/// A client of one server. Cloning it is cheap; clones share their connections and warnings.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Inner>,
    /// The trace that its calls belong to.
    trace: Option<TraceParent>,
}

#[derive(Debug)]
struct Inner {
    transport: Transport,
    retries: Retries,
    warnings: Warnings,
}

impl Client {
    /// A client for the server that `config` describes. Nothing is sent yet.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let transport = Transport::new(&config)?;
        let shared = Arc::new(Inner { transport, retries: config.retries, warnings: Warnings::default() });
        Ok(Self { shared, trace: None })
    }

    /// The same client, whose calls say that they belong to this trace; none if there is no trace. The server logs it.
    #[must_use]
    pub fn traced(&self, trace: Option<TraceParent>) -> Self {
        Self { shared: Arc::clone(&self.shared), trace }
    }

    /// The next warning about a server that is older than this client. There is one for each version; the results of its
    /// answers are valid.
    pub fn take_warning(&self) -> Option<OldServer> {
        self.shared.warnings.take()
    }

    /// The version in the latest answer that had one.
    pub fn server_version(&self) -> Option<Version> {
        self.shared.warnings.latest()
    }

    /// Sends a call, repeats it where that is allowed and may help, and returns what `read` finds in its answer.
    pub(crate) async fn perform<T>(&self, call: Call, read: impl Fn(&Answer) -> Result<T, Error>) -> Result<T, Error> {
        let (mut failed, mut earlier_may_be_done) = (0, false);
        loop {
            let error = match self.send(&call).await.and_then(|answer| read(&answer)) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            failed += 1;
            let again = call.is_repeatable && error.is_temporary();
            let pause =
                again.then(|| self.shared.retries.pause(failed, error.retry_after(), retries::random_u16())).flatten();
            let Some(pause) = pause else { return Err(call.final_error(error, earlier_may_be_done)) };
            earlier_may_be_done |= error.may_have_been_done();
            tokio::time::sleep(pause).await;
        }
    }

    async fn send(&self, call: &Call) -> Result<Answer, Error> {
        let answer = self.shared.transport.send(call, self.trace).await?;
        if let Some(version) = &answer.server_version {
            self.shared.warnings.note(version);
        }
        Ok(answer)
    }
}
