//! Which extensions the server has that a claim may use. It is asked before the first claim, and again after an outage. Whatever
//! goes wrong with the question delays no claim for long: without an answer the worker does without.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use taskqueue_client::{Error, capabilities};
use tokio::time::{Instant, timeout};

use crate::context::WorkerContext;

/// How long a claim waits for the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// After a question without a usable answer.
const ASK_AGAIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Features {
    known: Mutex<Known>,
    /// Held while the server is asked, so that the slots of a worker ask once.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// Whether claims may say who claims.
    run_info: bool,
    /// When to ask; `None` means that the answer is there.
    ask_at: Option<Instant>,
}

impl Features {
    pub(crate) fn unknown() -> Self {
        let known = Known { run_info: false, ask_at: Some(Instant::now()) };
        Self { known: Mutex::new(known), asking: tokio::sync::Mutex::new(()) }
    }

    /// The server may have become another one.
    pub(crate) fn forget(&self) {
        self.known().ask_at = Some(Instant::now());
    }

    /// The server has refused a claim that said who claims.
    pub(crate) fn has_no_run_info(&self) {
        *self.known() = Known { run_info: false, ask_at: None };
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known, unless it is time to ask.
    fn run_info(&self) -> Option<bool> {
        let Known { run_info, ask_at } = *self.known();
        ask_at.is_none_or(|time| Instant::now() < time).then_some(run_info)
    }
}

impl WorkerContext {
    /// Whether claims may say who claims.
    pub(crate) async fn has_run_info(&self) -> bool {
        if let Some(known) = self.features.run_info() {
            return known;
        }
        // The claim finds out first whether there is a server again. It is probably the same one.
        if self.reachability.is_lost() {
            return self.features.known().run_info;
        }
        let _asking = self.features.asking.lock().await;
        if let Some(known) = self.features.run_info() {
            return known;
        }
        let answer = timeout(ANSWER_TIMEOUT, self.client.capabilities()).await;
        let known = match answer {
            Ok(Ok(features)) => Known { run_info: features.has(capabilities::RUN_INFO), ask_at: None },
            // It will not answer otherwise later.
            Ok(Err(Error::Api { status: 400..=499, .. })) => Known { run_info: false, ask_at: None },
            Ok(Err(_)) | Err(_) => Known { run_info: false, ask_at: Some(Instant::now() + ASK_AGAIN) },
        };
        *self.features.known() = known;
        known.run_info
    }
}
