//! A request for a page: who looks, at which address, since when; and the form that was sent with it, read within a limit and taken only
//! from our own pages.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use http_body_util::{BodyExt, Limited};
use taskqueue_core::limits::NAME_CHARS;
use taskqueue_core::{QueueName, Scope, Task, TaskId};
use taskqueue_store::StoreExt;
use taskqueue_store::submission::Held;
use tokio::sync::MutexGuard;
use tokio::time::{Instant, timeout};

use crate::address::{PARAMETERS_MAX, Query, SIGN_IN};
use crate::cookies;
use crate::host::{Mode, Viewer};
use crate::problem::Problem;
use crate::state::Dashboard;

/// The field in which every form carries the secret of its viewer.
const FORM_TOKEN: &str = "form_token";
/// Enough for a selection of a page of tasks and a filter.
const FORM_BYTES: usize = 64 * 1024;
/// A form from here on takes more memory than every page has.
const LARGE_FORM_BYTES: usize = 512 * 1024;
/// Up to this the memory of a page is enough for what is parsed of a form.
const PARSED_FORM_BYTES: usize = 32 * 1024;
/// How often the text of a form is in memory while it is read.
const COPIES: usize = 3;
/// How long a browser may take to send a form.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The colours that can be chosen; without a choice the system decides.
pub(crate) const THEMES: [&str; 2] = ["light", "dark"];

pub(crate) fn theme_of(headers: &HeaderMap) -> Option<&'static str> {
    let chosen = cookies::read(headers, cookies::THEME)?;
    THEMES.into_iter().find(|theme| *theme == chosen)
}

/// One request of a viewer who may look. Every handler of a page begins with one, so that none can forget to ask.
pub(crate) struct Visit {
    pub(crate) dashboard: Arc<Dashboard>,
    pub(crate) viewer: Viewer,
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) theme: Option<&'static str>,
    /// What the last action of this browser did.
    pub(crate) notice: Option<String>,
    pub(crate) began: Instant,
    /// What the template of the path names.
    parts: HashMap<String, String>,
}

impl FromRequestParts<Arc<Dashboard>> for Visit {
    type Rejection = Problem;

    async fn from_request_parts(head: &mut Parts, dashboard: &Arc<Dashboard>) -> Result<Self, Problem> {
        let (path, query) = (head.uri.path().to_owned(), Query::parse(head.uri.query().unwrap_or_default()));
        let Some(viewer) = head.extensions.get::<Viewer>().cloned() else {
            return Err(not_signed_in(head, query.at(&path)));
        };
        if !viewer.may_somewhere(Scope::Read) {
            return Err(Problem::not_for_reading());
        }
        let parts = Path::<HashMap<String, String>>::from_request_parts(head, dashboard).await;
        let notice = cookies::read(&head.headers, cookies::NOTICE).and_then(|text| cookies::read_notice(text, &viewer));
        Ok(Self {
            dashboard: Arc::clone(dashboard),
            theme: theme_of(&head.headers),
            parts: parts.map(|Path(parts)| parts).unwrap_or_default(),
            headers: head.headers.clone(),
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

    /// The queue in the path, if the viewer may do there what needs `scope`.
    pub(crate) fn queue_for(&self, scope: Scope) -> Result<QueueName, Problem> {
        let queue = self.queue()?;
        self.check(scope, &queue)?;
        Ok(queue)
    }

    /// The id of the task in the path.
    pub(crate) fn task_id(&self) -> Result<TaskId, Problem> {
        let unknown = || Problem::not_found("task", "Check its id. The list of tasks has a search.");
        self.parts.get("task").and_then(|id| TaskId::parse(id)).ok_or_else(unknown)
    }

    /// The task in the path.
    pub(crate) async fn task(&self) -> Result<Task, Problem> {
        Ok(self.dashboard.store().get_task(&self.queue()?, self.task_id()?).await?)
    }

    /// The address by which the browser reached this server.
    pub(crate) fn server_url(&self) -> String {
        let host = self.headers.get(HOST).and_then(|host| host.to_str().ok());
        let is_plain = |host: &&str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
        let scheme = if self.dashboard.host.is_tls() { "https" } else { "http" };
        format!("{scheme}://{}", host.filter(is_plain).unwrap_or("127.0.0.1:8000"))
    }

    /// Returns what is looked for in names, as much of it as a name has.
    pub(crate) fn find(&self) -> String {
        self.query.get("find").unwrap_or_default().trim().chars().take(NAME_CHARS).collect()
    }

    /// Returns whether this viewer may do what needs `scope` in a queue, and this dashboard lets them.
    pub(crate) fn may(&self, scope: Scope, queue: &QueueName) -> bool {
        (scope == Scope::Read || self.dashboard.mode == Mode::Full) && self.viewer.may(scope, queue.as_str())
    }

    /// Returns whether there may be a queue in which this viewer may do what needs `scope`.
    pub(crate) fn may_somewhere(&self, scope: Scope) -> bool {
        (scope == Scope::Read || self.dashboard.mode == Mode::Full) && self.viewer.may_somewhere(scope)
    }

    /// Refuses what this viewer may not do here.
    pub(crate) fn check(&self, scope: Scope, queue: &QueueName) -> Result<(), Problem> {
        if self.may(scope, queue) {
            return Ok(());
        }
        Err(Problem::forbidden(match self.dashboard.mode {
            Mode::Full => "Your token does not open this. Ask whoever runs the server for one that does.",
            Mode::ReadOnly | Mode::Off => {
                "This dashboard is read-only. Use the command line, or start the server with --dashboard full."
            }
        }))
    }

    /// Reads a form, if it came from one of the pages of this viewer.
    pub(crate) async fn form(&self, body: Body) -> Result<Query, Problem> {
        self.form_within(body, FORM_BYTES).await
    }

    /// Reads a form that may have so many bytes. It waits for the memory that a large one takes.
    pub(crate) async fn large_form(&self, body: Body, most_bytes: usize) -> Result<LargeForm<'_>, Problem> {
        let length = self.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        // A body whose length nobody says may be long.
        let length = length.and_then(|text| text.parse().ok()).unwrap_or(most_bytes).min(most_bytes);
        let reserved =
            if length < LARGE_FORM_BYTES { None } else { Some(self.dashboard.reserve(length * COPIES).await?) };
        let fields = self.form_within(body, most_bytes).await?;
        let bytes: usize = fields.iter().map(|(_, text)| text.len()).sum();
        let turn = if bytes > PARSED_FORM_BYTES { Some(self.dashboard.large_form_turn().await?) } else { None };
        Ok(LargeForm { fields, turn, reserved })
    }

    async fn form_within(&self, body: Body, most_bytes: usize) -> Result<Query, Problem> {
        let form = read_fields(&self.headers, body, most_bytes).await?;
        if form.get(FORM_TOKEN).is_some_and(|sent| self.viewer.has_form_token(sent)) {
            return Ok(form.without(FORM_TOKEN));
        }
        Err(Problem::forbidden(
            "The form is not from a page of yours, or you signed in anew since. Go back, reload the page, and try again.",
        ))
    }
}

/// A form that may be large.
pub(crate) struct LargeForm<'v> {
    pub(crate) fields: Query,
    pub(crate) turn: FormTurn<'v>,
    /// The memory of the form, which is held while it is worked on.
    pub(crate) reserved: Option<Held>,
}

/// Held by a large form while its JSON is parsed.
pub(crate) type FormTurn<'v> = Option<MutexGuard<'v, ()>>;

/// Reads a form of anybody.
pub(crate) async fn read_fields(headers: &HeaderMap, body: Body, most_bytes: usize) -> Result<Query, Problem> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !content_type.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
        return Err(Problem::invalid("This is not a form", "Use the buttons of the page."));
    }
    let collected = timeout(READ_TIMEOUT, Limited::new(body, most_bytes).collect()).await;
    let Ok(Ok(bytes)) = collected.map(|body| body.map(|body| body.to_bytes())) else {
        let advice =
            format!("It may have {} KiB, and its sending {} seconds.", most_bytes / 1024, READ_TIMEOUT.as_secs());
        return Err(Problem::invalid("The form is too large or came too slowly", advice));
    };
    // Nothing is done with a part of a form.
    if bytes.iter().filter(|byte| **byte == b'&').count() >= PARAMETERS_MAX {
        return Err(Problem::invalid("The form has too many fields", "Use the buttons of the page."));
    }
    Ok(Query::parse(&String::from_utf8_lossy(&bytes)))
}

/// The answer to somebody without a session, at this address.
fn not_signed_in(head: &Parts, address: String) -> Problem {
    let says = |name, word: &str| head.headers.get(name).is_some_and(|value: &HeaderValue| value == word);
    let is_foreign_link = says("sec-fetch-mode", "navigate")
        && (says("sec-fetch-site", "cross-site") || says("sec-fetch-site", "same-site"));
    match head.method {
        Method::GET if is_foreign_link => Problem::Again(address),
        Method::GET | Method::HEAD => Problem::SignIn(Query::default().and("next", address).at(SIGN_IN)),
        // What was to be done is not done after the sign-in, so its address is of no use.
        _ => Problem::SignIn(SIGN_IN.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_form_of_a_million_fields_is_refused_and_not_read_in_part() {
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind)]);
        let many = Body::from("a&".repeat(1_000_000));
        assert!(read_fields(&headers, many, 4_000_000).await.is_err());
        let few = read_fields(&headers, Body::from("a=1&b=2"), 100).await;
        assert_eq!(few.map(|form| form.to_string()), Ok("a=1&b=2".to_owned()));
    }
}
