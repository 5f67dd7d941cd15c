//! Pages that say why there is nothing else to show, and what to do. The messages of the API are made for programs; these are for
//! people.

use std::borrow::Cow;

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, LOCATION, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use taskqueue_core::Refusal;
use taskqueue_store::StoreError;

use crate::address::SIGN_IN;
use crate::answer::{SET, html, see_other};

/// A text that is always the same, or made for the occasion.
type Text = Cow<'static, str>;

/// Why a request does not get its page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// With what to do, in a sentence.
    Told { status: StatusCode, title: Text, advice: Text, link: Link },
    /// For somebody who has to sign in first, at this address.
    SignIn(String),
    /// For somebody who followed a link of another site. The browser keeps the session to itself then, and sends it when a page of
    /// ours asks for the same address.
    Again(String),
}

/// The button of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    address: &'static str,
    text: &'static str,
}

const NOT_OPEN: &str = "This is not open to you";
const OVERVIEW: Link = Link { address: "/ui/", text: "Go to the overview" };
const OTHER_TOKEN: Link = Link { address: SIGN_IN, text: "Sign in with another token" };

#[derive(Template)]
#[template(path = "again.html")]
struct AgainPage<'p> {
    asset_set: &'static str,
    address: &'p str,
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'p> {
    asset_set: &'static str,
    title: &'p str,
    advice: &'p str,
    link: Link,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, title: impl Into<Text>, advice: impl Into<Text>) -> Self {
        Self::Told { status, title: title.into(), advice: advice.into(), link: OVERVIEW }
    }

    pub(crate) fn not_found(what: &str, advice: impl Into<Text>) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("There is no such {what}"), advice)
    }

    pub(crate) fn forbidden(advice: impl Into<Text>) -> Self {
        Self::new(StatusCode::FORBIDDEN, NOT_OPEN, advice)
    }

    pub(crate) fn invalid(title: impl Into<Text>, advice: impl Into<Text>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, title, advice)
    }

    pub(crate) fn busy() -> Self {
        let advice =
            "The server has more to do than it can do at once. Nothing was changed. Reload the page in a moment.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "The server is busy", advice)
    }

    /// For a defect of ours, which the log tells more about.
    pub(crate) fn mistake() -> Self {
        let advice = "The log of the server says more; please report it.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "The server made a mistake", advice)
    }

    /// For somebody whose token shows no page.
    pub(crate) fn not_for_reading() -> Self {
        let advice = "Your token does not have the scope read, which the dashboard needs. Ask whoever runs the server for one that has.";
        Self::Told { status: StatusCode::FORBIDDEN, title: NOT_OPEN.into(), advice: advice.into(), link: OTHER_TOKEN }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let unavailable =
            |title: &'static str, advice: &'static str| Self::new(StatusCode::SERVICE_UNAVAILABLE, title, advice);
        match error {
            StoreError::Refused(refusal) => refusal.into(),
            StoreError::Busy => Self::busy(),
            StoreError::Unavailable => unavailable(
                "The database does not answer",
                "Nothing was changed. The log of the server says why. Reload the page in a moment.",
            ),
            StoreError::OutcomeUnknown => unavailable(
                "It is not known whether this was done",
                "The connection to the database broke at the wrong moment. Look at the tasks before you try again.",
            ),
            StoreError::PartlyDone => unavailable(
                "Only a part of this was done",
                "The database failed in between. Look at what is left, and do it again for that.",
            ),
            StoreError::Broken(bug) => {
                tracing::error!(bug, "a page of the dashboard could not be made");
                Self::mistake()
            }
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let conflict = |title: String, advice: &'static str| Self::new(StatusCode::CONFLICT, title, advice);
        match refusal {
            Refusal::QueueNotFound { .. } => {
                Self::not_found("queue", "It may have been deleted. The overview shows all queues.")
            }
            Refusal::TaskNotFound { .. } => {
                Self::not_found("task", "It may have been deleted. The overview leads to the tasks of each queue.")
            }
            Refusal::InvalidCursor => Self::invalid(
                "This page of the list cannot be shown any more",
                "The link belongs to another list. Go back to the first page.",
            ),
            Refusal::TaskRunning { .. } => conflict(
                "The task is running".to_owned(),
                "A running task cannot be changed or deleted. Cancel it first, or wait for its end.",
            ),
            Refusal::TaskStateConflict { status, .. } => conflict(
                format!("The task is {} by now", status.as_str()),
                "It has changed since the page was made. Reload the page and look again.",
            ),
            Refusal::TaskIdConflict { .. } => conflict(
                "A task with this id is already there".to_owned(),
                "It has another definition. Leave the id empty to get a new one.",
            ),
            Refusal::UpdateConflict { field, attempt, .. } => conflict(
                format!("{field} would leave no attempt: {attempt} are already used"),
                "Choose a larger number.",
            ),
            Refusal::NotArchivable { status, .. } => conflict(
                format!("The task is {}", status.as_str()),
                "Only a task that has ended can be archived. Cancel it first, or wait for its end.",
            ),
            Refusal::TooManyRouteLimits => {
                Self::invalid("Too many routes have a limit", "Remove limits that are no longer needed.")
            }
            Refusal::BulkUpdateTooLarge { most_tasks, .. } => Self::invalid(
                "These are too many tasks for this change at once",
                format!("Nothing was changed. Narrow the filter to at most {most_tasks} tasks like these."),
            ),
            Refusal::TaskDataTooLarge => Self::invalid(
                "The task is too large",
                "Args, metadata and result have a limit together. Put large data into a file and its path into args.",
            ),
            Refusal::ExpectationFailed { expected, matched } => conflict(
                format!("{matched} tasks match by now, not {expected}"),
                "Nothing was changed. Go back to the list and look at what has changed.",
            ),
            Refusal::QueueNotEmpty { tasks, .. } => {
                conflict(format!("The queue has {tasks} tasks"), "Delete these first, or delete them with the queue.")
            }
            Refusal::QueueHasRunningTasks { running, .. } => {
                conflict(format!("The queue has {running} running tasks"), "Cancel these first, or wait for their end.")
            }
            Refusal::OutputNotFound { .. } => {
                Self::not_found("output", "The task has printed nothing yet, or its output was deleted.")
            }
            // Only workers cause these.
            Refusal::StaleRun { .. }
            | Refusal::RunFinalized { .. }
            | Refusal::RunIdConflict { .. }
            | Refusal::WorkerRouteConflict { .. }
            | Refusal::WorkerNotFound { .. } => {
                conflict("The run has ended".to_owned(), "Reload the page and look again.")
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, title, advice, link) = match self {
            Self::Told { status, title, advice, link } => (status, title, advice, link),
            Self::SignIn(address) => return see_other(&address),
            Self::Again(address) => {
                let page = AgainPage { asset_set: SET, address: &address };
                return html(StatusCode::OK, page.render().unwrap_or_default());
            }
        };
        let page = ProblemPage { asset_set: SET, title: &title, advice: &advice, link };
        let mut response = html(status, page.render().unwrap_or_default());
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("2"));
        }
        debug_assert!(!response.headers().contains_key(LOCATION));
        response
    }
}
