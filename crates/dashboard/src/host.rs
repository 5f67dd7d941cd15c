//! What the dashboard asks of the server that it is mounted in.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use taskqueue_core::settings::Retention;
use taskqueue_store::Store;
use taskqueue_store::submission::Held;

/// The server behind the pages.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    fn store(&self) -> &Arc<dyn Store>;

    /// The extensions that this server offers, sorted.
    fn features(&self) -> Vec<&'static str>;

    /// The bytes of output that are kept of a task; with 0 there is no output.
    fn task_output_bytes(&self) -> usize;

    /// How long ended tasks are kept in queues that are created here.
    fn default_retention(&self) -> Retention;

    /// Whether browsers reach this server with TLS.
    fn is_tls(&self) -> bool;

    /// A new session for whoever has this token.
    fn sign_in(&self, token: &str) -> Result<SessionCookie, SignInRefusal>;

    /// Waits until so many bytes are free in the memory for answers, and reserves them; none if that takes too long.
    async fn reserve(&self, bytes: usize) -> Option<Held>;

    /// Waits for the turn in which a filter of so many bytes is read, on a thread that serves no requests; none if it is read where
    /// it is.
    async fn filter_turn(&self, bytes: usize) -> Option<Held>;

    /// What this process does at this moment.
    fn figures(&self) -> HostFigures;
}

/// Why a token does not open the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInRefusal {
    /// It is wrong, or it has expired: which of the two is not told.
    Wrong,
    /// It is right, but does not have the scope `read`.
    NotForReading,
}

/// A session as the browser keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCookie {
    pub value: String,
    /// From now on.
    pub lifetime: Duration,
}

/// What a server process does at one moment. Counts are since its start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostFigures {
    pub version: &'static str,
    pub uptime: Duration,
    pub requests: u64,
    /// Answers with a status from 500 on.
    pub failures: u64,
    pub connections: usize,
    /// Requests that wait: for a task, with a heartbeat, for output.
    pub waiting: [usize; 3],
    pub waiting_limit: usize,
    pub memory_bytes: Option<u64>,
}
