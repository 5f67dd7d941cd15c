//! A request for a page: who looks, at which address, since when.

use std::collections::HashMap;
use std::convert::Infallible;

use axum::extract::{FromRequestParts, Path};
use axum::http::header::{HeaderValue, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use taskqueue_core::access::Scope;
use taskqueue_core::ids::{QueueName, TaskId};
use tokio::time::Instant;

use crate::address::Query;
use crate::cookies;
use crate::mode::Mode;
use crate::notice::Notice;
use crate::problem::Problem;
use crate::router::SIGN_IN;
use crate::state::Dashboard;
use crate::viewer::Viewer;

/// The chosen colours; without a choice the system decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    Light,
    Dark,
}

impl Theme {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        [Self::Light, Self::Dark].into_iter().find(|theme| theme.as_str() == word)
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// One request of a viewer who may look. Every handler of a page begins with one, so that none can forget to ask.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) viewer: Viewer,
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) theme: Option<Theme>,
    /// What the last action of this browser did.
    pub(crate) notice: Option<Notice>,
    pub(crate) began: Instant,
    mode: Mode,
    /// What the template of the path names.
    parts: HashMap<String, String>,
}

impl FromRequestParts<Dashboard> for Visit {
    type Rejection = Problem;

    async fn from_request_parts(head: &mut Parts, dashboard: &Dashboard) -> Result<Self, Problem> {
        let (path, query) = (head.uri.path().to_owned(), Query::parse(head.uri.query().unwrap_or_default()));
        let Some(viewer) = head.extensions.get::<Viewer>().cloned() else {
            return Err(not_signed_in(head, query.at(&path)));
        };
        if !viewer.may_somewhere(Scope::Read) {
            return Err(Problem::not_for_reading());
        }
        let parts = Path::<HashMap<String, String>>::from_request_parts(head, dashboard).await;
        let notice = cookies::read(&head.headers, cookies::NOTICE).and_then(|text| Notice::read(text, &viewer));
        Ok(Self {
            theme: cookies::read(&head.headers, cookies::THEME).and_then(Theme::parse),
            parts: parts.map(|Path(parts)| parts).unwrap_or_default(),
            headers: head.headers.clone(),
            mode: dashboard.mode(),
            began: Instant::now(),
            viewer,
            path,
            query,
            notice,
        })
    }
}

impl Visit {
    /// The queue in the path, if the viewer may see it. A queue that is not theirs looks like one that is not there.
    pub(crate) fn queue(&self) -> Result<QueueName, Problem> {
        let unknown = || Problem::not_found("queue", "Check its name. The overview shows all queues that you may see.");
        let queue = self.parts.get("queue").and_then(|name| QueueName::parse(name)).ok_or_else(unknown)?;
        if self.viewer.sees(queue.as_str()) { Ok(queue) } else { Err(unknown()) }
    }

    /// The task in the path.
    pub(crate) fn task_id(&self) -> Result<TaskId, Problem> {
        let unknown = || Problem::not_found("task", "Check its id. The list of tasks has a search.");
        self.parts.get("task").and_then(|id| TaskId::parse(id)).ok_or_else(unknown)
    }

    /// Whether this viewer may do what needs `scope` in a queue, and this dashboard lets them.
    pub(crate) fn may(&self, scope: Scope, queue: &QueueName) -> bool {
        (scope == Scope::Read || self.mode == Mode::Full) && self.viewer.may(scope, queue.as_str())
    }

    /// Whether there may be a queue in which this viewer may do what needs `scope`.
    pub(crate) fn may_somewhere(&self, scope: Scope) -> bool {
        (scope == Scope::Read || self.mode == Mode::Full) && self.viewer.may_somewhere(scope)
    }

    /// Refuses what this viewer may not do here.
    pub(crate) fn check(&self, scope: Scope, queue: &QueueName) -> Result<(), Problem> {
        if self.may(scope, queue) {
            return Ok(());
        }
        Err(Problem::forbidden(match self.mode {
            Mode::Full => "Your token does not open this. Ask whoever runs the server for one that does.",
            Mode::ReadOnly | Mode::Off => {
                "This dashboard is read-only. Use the command line, or start the server with --dashboard full."
            }
        }))
    }
}

/// The answer to somebody without a session, at this address.
fn not_signed_in(head: &Parts, address: String) -> Problem {
    let says = |name, word: &str| head.headers.get(name).is_some_and(|value: &HeaderValue| value == word);
    let is_foreign_link = says("sec-fetch-mode", "navigate")
        && (says("sec-fetch-site", "cross-site") || says("sec-fetch-site", "same-site"));
    match head.method {
        Method::GET if is_foreign_link => Problem::again(address),
        Method::GET | Method::HEAD => Problem::sign_in(Query::default().and("next", address).at(SIGN_IN)),
        // What was to be done is not done after the sign-in, so its address is of no use.
        _ => Problem::sign_in(SIGN_IN.to_owned()),
    }
}

/// For handlers of pages that somebody sees who is not signed in.
#[derive(Debug)]
pub(crate) struct Stranger {
    pub(crate) query: Query,
    /// Whether this server shows its pages to everybody.
    pub(crate) needs_no_session: bool,
    /// Whether the browser reached this page with TLS, as it says itself.
    pub(crate) is_tls: bool,
    pub(crate) theme: Option<Theme>,
}

impl FromRequestParts<Dashboard> for Stranger {
    type Rejection = Infallible;

    async fn from_request_parts(head: &mut Parts, _: &Dashboard) -> Result<Self, Infallible> {
        let theme = cookies::read(&head.headers, cookies::THEME).and_then(Theme::parse);
        let needs_no_session = head.extensions.get::<Viewer>().is_some_and(|viewer| !viewer.has_session());
        // With a proxy in front of it the server does not know. The sender of a form was compared with the host by then.
        let is_tls = head.headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
        Ok(Self { query: Query::parse(head.uri.query().unwrap_or_default()), needs_no_session, is_tls, theme })
    }
}
