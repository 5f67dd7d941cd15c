//! Which extensions the server has that a worker may use. It is asked before the first claim, and again after an outage. Whatever
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
    state: Mutex<State>,
    /// Held while the server is asked, so that the slots of a worker ask once.
    asking: tokio::sync::Mutex<()>,
}

/// What the server takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// Whether claims may say who claims.
    pub(crate) run_info: bool,
    /// Whether several claims in one request may say which slot each is for, as far as is known.
    pub(crate) slots_of_claims: bool,
    /// Whether several claims or reports may be sent with one request.
    pub(crate) batch: bool,
    /// Whether it keeps what runs print.
    pub(crate) output: bool,
    pub(crate) progress: bool,
    pub(crate) telemetry: bool,
    /// Whether it tells what is pending.
    pub(crate) stats: bool,
    /// Whether it tells why a task is not claimed.
    pub(crate) explain: bool,
}

#[derive(Clone, Copy, Debug)]
struct State {
    known: Known,
    /// When to ask; `None` means that the answer is there.
    ask_at: Option<Instant>,
}

impl Features {
    pub(crate) fn unknown() -> Self {
        let state = State { known: Known::default(), ask_at: Some(Instant::now()) };
        Self { state: Mutex::new(state), asking: tokio::sync::Mutex::new(()) }
    }

    /// The server may have become another one.
    pub(crate) fn forget(&self) {
        self.state().ask_at = Some(Instant::now());
    }

    /// The server has refused a claim that said who claims.
    pub(crate) fn has_no_run_info(&self) {
        let mut state = self.state();
        *state = State { known: Known { run_info: false, ..state.known }, ask_at: None };
    }

    /// The server has refused claims that said which slot each is for.
    pub(crate) fn has_no_slots_of_claims(&self) {
        let mut state = self.state();
        *state = State { known: Known { slots_of_claims: false, ..state.known }, ask_at: None };
    }

    /// The server has refused a batch for being one.
    pub(crate) fn has_no_batch(&self) {
        let mut state = self.state();
        *state = State { known: Known { batch: false, ..state.known }, ask_at: None };
    }

    /// What was known last, without asking.
    pub(crate) fn known(&self) -> Known {
        self.state().known
    }

    /// Whether the server has said what it takes.
    pub(crate) fn is_certain(&self) -> bool {
        self.state().ask_at.is_none()
    }

    /// Whether the server takes batches, as far as is known. If it is time to ask, it may.
    pub(crate) fn may_batch(&self) -> bool {
        self.up_to_date().is_none_or(|known| known.batch)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known, unless it is time to ask.
    fn up_to_date(&self) -> Option<Known> {
        let State { known, ask_at } = *self.state();
        ask_at.is_none_or(|time| Instant::now() < time).then_some(known)
    }
}

impl WorkerContext {
    /// What the server takes. It is asked if that is not known.
    pub(crate) async fn server_features(&self) -> Known {
        if let Some(known) = self.features.up_to_date() {
            return known;
        }
        // The claim finds out first whether there is a server again. It is probably the same one.
        if self.reachability.is_lost() {
            return self.features.known();
        }
        let _asking = self.features.asking.lock().await;
        if let Some(known) = self.features.up_to_date() {
            return known;
        }
        let answer = timeout(ANSWER_TIMEOUT, self.client.capabilities()).await;
        let (known, ask_at) = match answer {
            Ok(Ok(features)) => {
                let known = Known {
                    run_info: features.has(capabilities::RUN_INFO),
                    slots_of_claims: features.has(capabilities::RUN_INFO),
                    batch: features.has(capabilities::BATCH),
                    output: features.has(capabilities::OUTPUT),
                    progress: features.has(capabilities::PROGRESS),
                    telemetry: features.has(capabilities::TELEMETRY),
                    stats: features.has(capabilities::STATS),
                    explain: features.has(capabilities::EXPLAIN),
                };
                (known, None)
            }
            // It will not answer otherwise later.
            Ok(Err(Error::Api { status: 400..=499, .. })) => (Known::default(), None),
            Ok(Err(_)) | Err(_) => (Known::default(), Some(Instant::now() + ASK_AGAIN)),
        };
        *self.features.state() = State { known, ask_at };
        known
    }
}
