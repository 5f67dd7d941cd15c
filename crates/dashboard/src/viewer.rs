//! Who looks at a page: what they may see and do, and the proof that a form came from one of our pages.

use std::sync::Arc;

use subtle::ConstantTimeEq;
use taskqueue_core::access::{Grant, Need, Scope};

/// What a viewer may see and do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything: there is no token, or this was the server-wide one.
    Everything,
    /// What the token of this name opens.
    Named(Arc<str>, Arc<Grant>),
}

/// Whoever asks for a page. The server puts one into the extensions of each request that it has identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    access: Access,
    /// A secret between this viewer and the servers. Viewers with the same token have the same one.
    form_token: Arc<str>,
    /// Whether there is a session that can be ended.
    has_session: bool,
}

impl Viewer {
    pub fn new(access: Access, form_token: &str, has_session: bool) -> Self {
        Self { access, form_token: form_token.into(), has_session }
    }

    /// Whether this viewer may do what needs `scope` in a queue.
    pub fn may(&self, scope: Scope, queue: &str) -> bool {
        match &self.access {
            Access::Everything => true,
            Access::Named(_, grant) => grant.check(Need::Scope(scope), Some(queue)).is_ok(),
        }
    }

    /// Whether there may be a queue in which this viewer may do what needs `scope`.
    pub fn may_somewhere(&self, scope: Scope) -> bool {
        match &self.access {
            Access::Everything => true,
            Access::Named(_, grant) => grant.check(Need::Scope(scope), None).is_ok(),
        }
    }

    /// Whether this viewer may see a queue.
    pub fn sees(&self, queue: &str) -> bool {
        self.may(Scope::Read, queue)
    }

    /// Whether this viewer may see what tells of all queues.
    pub fn sees_everything(&self) -> bool {
        match &self.access {
            Access::Everything => true,
            Access::Named(_, grant) => grant.check(Need::Everywhere(Scope::Read), None).is_ok(),
        }
    }

    /// The name of the token, if it has one.
    pub fn name(&self) -> Option<&str> {
        match &self.access {
            Access::Everything => None,
            Access::Named(name, _) => Some(name),
        }
    }

    pub fn has_session(&self) -> bool {
        self.has_session
    }

    /// What each of our forms carries.
    pub fn form_token(&self) -> &str {
        &self.form_token
    }

    /// Whether a form came from one of the pages of this viewer.
    pub fn has_form_token(&self, sent: &str) -> bool {
        self.form_token.as_bytes().ct_eq(sent.as_bytes()).into()
    }
}
