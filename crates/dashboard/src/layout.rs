//! What all pages share: the frame around them, and the answers that carry them. The template is `templates/layout.html`.

use std::time::Duration;

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::{ETAG, HeaderValue, IF_NONE_MATCH, SET_COOKIE};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use taskqueue_core::{QueueName, Scope};
use taskqueue_store::StoreExt;

use crate::answer::{self, hex_digits, html, see_other, see_other_with};
use crate::cookies;
use crate::problem::Problem;
use crate::visit::Visit;

/// Queues that the frame offers; the overview finds the others.
const QUEUES_OFFERED: usize = 200;

pub(crate) type PageResult = Result<Response, Problem>;

/// The entries of the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Tasks,
    Workers,
    Routes,
    Compare,
    Submit,
    Settings,
    System,
}

impl Section {
    /// Each with its title, and the last part of its path if it is one of a queue.
    const ALL: [(Self, &'static str, Option<&'static str>); 8] = [
        (Self::Overview, "Overview", None),
        (Self::Tasks, "Tasks", Some("tasks")),
        (Self::Workers, "Workers", Some("workers")),
        (Self::Routes, "Routes", Some("routes")),
        (Self::Compare, "Compare", Some("compare")),
        (Self::Submit, "Submit", Some("submit")),
        (Self::Settings, "Settings", Some("settings")),
        (Self::System, "System", None),
    ];

    /// The last part of its path, if it is one of a queue.
    fn word(self) -> Option<&'static str> {
        Self::ALL.into_iter().find(|(section, ..)| *section == self)?.2
    }

    /// Its path; none for a section of a queue when there is no queue.
    fn path(self, queue: Option<&str>) -> Option<String> {
        match self.word() {
            None if self == Self::System => Some("/ui/system".to_owned()),
            None => Some("/ui/".to_owned()),
            Some(word) => queue.map(|queue| format!("/ui/queues/{queue}/{word}")),
        }
    }
}

/// An entry of the navigation.
pub(crate) struct Entry {
    pub(crate) section: Section,
    pub(crate) title: &'static str,
    pub(crate) path: String,
    pub(crate) is_current: bool,
}

/// The frame of a page.
pub(crate) struct Shell {
    pub(crate) asset_set: &'static str,
    pub(crate) title: String,
    pub(crate) theme: Option<&'static str>,
    pub(crate) entries: Vec<Entry>,
    /// The queue that the links of the navigation are for.
    pub(crate) queue: Option<String>,
    /// Queues that the viewer may see: the first ones, and this one.
    pub(crate) queues: Vec<String>,
    /// How many more there are.
    pub(crate) more_queues: usize,
    /// Where another queue leads to.
    pub(crate) switch_to: &'static str,
    pub(crate) viewer_name: Option<String>,
    pub(crate) has_session: bool,
    pub(crate) form_token: String,
    /// The address of this page, to come back to.
    pub(crate) address: String,
    pub(crate) notice: Option<String>,
    /// After how many seconds the page may ask again.
    pub(crate) refresh_seconds: u64,
}

impl Shell {
    /// The frame of a page. Made when everything else is there: it tells how soon the page may ask again, by how long it took.
    pub(crate) async fn new(
        visit: &Visit,
        title: impl Into<String>,
        section: Section,
        queue: Option<&QueueName>,
    ) -> Result<Self, Problem> {
        let dashboard = &visit.dashboard;
        let names = dashboard.store().list_queues().await?.into_iter().map(|name| name.as_str().to_owned());
        let queues: Vec<String> = names.filter(|name| visit.viewer.sees(name)).collect();
        let queue = queue.map(|queue| queue.as_str().to_owned()).or_else(|| queues.first().cloned());
        let (queues, more_queues) = offered(queues, queue.as_deref());
        let may_submit =
            || queue.as_deref().and_then(QueueName::parse).is_some_and(|queue| visit.may(Scope::Submit, &queue));
        let is_open = |section: Section| match section {
            Section::Submit => may_submit(),
            Section::Settings => dashboard.has("queue-settings"),
            _ => true,
        };
        let entry = |(each, title, _): (Section, &'static str, _)| {
            let path = each.path(queue.as_deref()).filter(|_| is_open(each))?;
            Some(Entry { section: each, title, path, is_current: each == section })
        };
        Ok(Self {
            asset_set: answer::SET,
            title: title.into(),
            theme: visit.theme,
            entries: Section::ALL.into_iter().filter_map(entry).collect(),
            queue,
            queues,
            more_queues,
            switch_to: section.word().unwrap_or("tasks"),
            viewer_name: visit.viewer.name().map(str::to_owned),
            has_session: visit.viewer.has_session,
            form_token: visit.viewer.form_token.to_string(),
            address: visit.query.at(&visit.path),
            notice: visit.notice.clone(),
            refresh_seconds: dashboard.refresh.after(visit.began.elapsed()).as_secs(),
        })
    }

    /// Returns the frame for a page for which more was to be done after it was made.
    #[must_use]
    pub(crate) fn made_by_now(self, visit: &Visit) -> Self {
        Self { refresh_seconds: visit.dashboard.refresh.after(visit.began.elapsed()).as_secs(), ..self }
    }
}

/// The queues that are offered, and how many are not: every page has them, and there may be thousands.
fn offered(mut queues: Vec<String>, current: Option<&str>) -> (Vec<String>, usize) {
    let rest = queues.split_off(queues.len().min(QUEUES_OFFERED));
    let more = rest.len();
    queues.extend(rest.into_iter().find(|name| Some(name.as_str()) == current));
    let found = queues.len().saturating_sub(QUEUES_OFFERED);
    (queues, more - found)
}

/// The answer with a page that may have another status, such as a form that is shown once more with what is wrong.
pub(crate) fn page_with(visit: &Visit, status: StatusCode, template: &impl Template) -> PageResult {
    let mut response = page(visit, template)?;
    // Not 200 over a 304: the browser has the page then, and gets no body.
    if status != StatusCode::OK {
        *response.status_mut() = status;
    }
    Ok(response)
}

/// The answer with a page, or that it is the one that the browser has.
pub(crate) fn page(visit: &Visit, template: &impl Template) -> PageResult {
    let body = template.render().map_err(|error| {
        tracing::error!(%error, "a template could not be rendered");
        Problem::mistake()
    })?;
    if visit.notice.is_some() {
        let mut response = html(StatusCode::OK, body);
        let ended = cookies::set(cookies::NOTICE, "", Duration::ZERO, false);
        response.headers_mut().extend(ended.map(|value| (SET_COOKIE, value)));
        return Ok(response);
    }
    let tag = format!("\"{}\"", hex_digits(&Sha256::digest(&body), 8));
    let is_known = visit.headers.get_all(IF_NONE_MATCH).into_iter().any(|known| known.as_bytes() == tag.as_bytes());
    let mut response = if is_known { StatusCode::NOT_MODIFIED.into_response() } else { html(StatusCode::OK, body) };
    response.headers_mut().extend(HeaderValue::try_from(tag).ok().map(|tag| (ETAG, tag)));
    Ok(response)
}

/// The answer to a form that did something: look there, where it is told what was done.
pub(crate) fn done(visit: &Visit, address: &str, notice: &str) -> Response {
    see_other_with(cookies::notice_cookie(notice, &visit.viewer), address)
}

/// Goes to the same section of another queue.
pub(crate) async fn switch_queue(visit: Visit) -> Response {
    let queue = visit.query.get("queue").and_then(QueueName::parse);
    let mut sections = Section::ALL.into_iter();
    let section = sections.find(|(_, _, word)| word.is_some() && *word == visit.query.get("to"));
    let section = section.map_or(Section::Tasks, |(section, _, _)| section);
    let path = queue.and_then(|queue| section.path(Some(queue.as_str())));
    see_other(path.as_deref().unwrap_or("/ui/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_offers_a_few_of_many_queues_and_always_its_own() {
        let all = || (0..10_000).map(|n| format!("q{n:05}")).collect::<Vec<String>>();
        let (offer, more) = offered(all(), Some("q00007"));
        assert_eq!((offer.len(), more), (QUEUES_OFFERED, 10_000 - QUEUES_OFFERED));
        let (offer, more) = offered(all(), Some("q09999"));
        assert_eq!((offer.len(), more), (QUEUES_OFFERED + 1, 10_000 - QUEUES_OFFERED - 1));
        assert_eq!(offer.last().map(String::as_str), Some("q09999"));
        assert_eq!(offered(all(), Some("gone")).0.len(), QUEUES_OFFERED);
        assert_eq!(offered(vec!["a".to_owned()], Some("a")), (vec!["a".to_owned()], 0));
    }
}
