//! What the dashboard and the server that it is mounted in tell each other: how much of the dashboard there is, what a server can be
//! asked, and who looks at a page.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use subtle::ConstantTimeEq;
use taskqueue_core::access::{Grant, Need};
use taskqueue_core::{Retention, Scope};
use taskqueue_store::Store;
use taskqueue_store::submission::Held;

/// What `--dashboard` chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// No page.
    Off,
    /// Pages without any button that changes something.
    ReadOnly,
    /// Everything that the viewer's token opens.
    #[default]
    Full,
}

impl Mode {
    pub const ALL: [Self; 3] = [Self::Off, Self::ReadOnly, Self::Full];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::ReadOnly => "read-only",
            Self::Full => "full",
        }
    }
}

impl FromStr for Mode {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word).ok_or("write off, read-only or full")
    }
}

/// The server behind the pages.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    fn store(&self) -> &Arc<dyn Store>;

    /// The extensions that this server offers, sorted.
    fn features(&self) -> Vec<&'static str>;

    /// The bytes of output that are kept of a task; with 0 there is no output.
    fn task_output_bytes(&self) -> usize;

    /// Returns how long ended tasks are kept in queues that are created here.
    fn default_retention(&self) -> Retention;

    /// Returns whether browsers reach this server with TLS.
    fn is_tls(&self) -> bool;

    /// A new session for whoever has this token.
    fn sign_in(&self, token: &str) -> Result<SessionCookie, SignInRefusal>;

    /// Waits until so many bytes are free in the memory for answers, and reserves them; none if that takes too long.
    async fn reserve(&self, bytes: usize) -> Option<Held>;

    /// Waits for the turn in which a filter of so many bytes is read, on a thread that serves no requests; none if it is read where
    /// it is.
    async fn filter_turn(&self, bytes: usize) -> Option<Held>;

    /// Returns what this process does at this moment.
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

/// What a viewer may see and do: what the token of this name opens. `None` is everything: there is no token, or this was the server-wide
/// one.
type Access = Option<(Arc<str>, Arc<Grant>)>;

/// Whoever asks for a page. The server puts one into the extensions of each request that it has identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    access: Access,
    /// A secret between this viewer and the servers. Viewers with the same token have the same one.
    pub form_token: Arc<str>,
    /// Whether there is a session that can be ended.
    pub has_session: bool,
}

impl Viewer {
    pub fn new(access: Access, form_token: &str, has_session: bool) -> Self {
        Self { access, form_token: form_token.into(), has_session }
    }

    /// Returns whether this viewer may do what needs `scope` in a queue.
    pub fn may(&self, scope: Scope, queue: &str) -> bool {
        self.is_granted(Need::Scope(scope), Some(queue))
    }

    /// Returns whether there may be a queue in which this viewer may do what needs `scope`.
    pub fn may_somewhere(&self, scope: Scope) -> bool {
        self.is_granted(Need::Scope(scope), None)
    }

    /// Returns whether this viewer may see a queue.
    pub fn sees(&self, queue: &str) -> bool {
        self.may(Scope::Read, queue)
    }

    /// Returns whether this viewer may see what tells of all queues.
    pub fn sees_everything(&self) -> bool {
        self.is_granted(Need::Everywhere(Scope::Read), None)
    }

    fn is_granted(&self, need: Need, queue: Option<&str>) -> bool {
        self.access.as_ref().is_none_or(|(_, grant)| grant.check(need, queue).is_ok())
    }

    /// The name of the token, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.access.as_ref().map(|(name, _)| &**name)
    }

    /// Returns whether a form came from one of the pages of this viewer.
    pub fn has_form_token(&self, sent: &str) -> bool {
        self.form_token.as_bytes().ct_eq(sent.as_bytes()).into()
    }
}
