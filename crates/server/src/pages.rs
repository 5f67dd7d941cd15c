//! Requests for pages of the dashboard, before they are routed: which ones these are, who looks, how a browser gets from `/` to them,
//! and that refusals are pages, too. The pages themselves are in the crate `dashboard`.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::header::{ALLOW, HeaderName, HeaderValue, LOCATION, VARY};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, StatusCode};
use taskqueue_api::ErrorCode;
use taskqueue_dashboard::{Mode, SessionCookie, SignInRefusal, problem_page, sent_sessions};
use taskqueue_store::InstallationSecret;

use crate::auth::{Gate, wall_clock};
use crate::browser_check::{self, BrowserRefusal, Hosts};
use crate::endpoints::PAGES_PREFIX;
use crate::prefer::MediaRange;
use crate::session::{Session, Sessions};

/// The overview.
const FIRST_PAGE: &str = PAGES_PREFIX;
const PAGES: &str = "/ui";
const ROOT: &str = "/";
const HTML: &str = "text/html";
const JSON: &str = "application/json";
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// Cookies of one name that are looked at: a neighbour may have set one that hides ours.
const SESSIONS_SENT: usize = 4;

/// The dashboard of a server.
#[derive(Debug)]
pub(crate) struct Pages {
    sessions: Sessions,
    pub(crate) mode: Mode,
    /// True if browsers reach this server with TLS.
    pub(crate) is_tls: bool,
}

impl Pages {
    /// Returns the pages of a server; `None` if there are none.
    pub(crate) fn new(secret: InstallationSecret, mode: Mode, is_tls: bool) -> Option<Self> {
        (mode != Mode::Off).then(|| Self { sessions: Sessions::new(secret), mode, is_tls })
    }

    pub(crate) fn sign_in(&self, gate: &Gate, token: &str) -> Result<SessionCookie, SignInRefusal> {
        self.sessions.begin(gate, token, wall_clock())
    }

    /// Returns whose request it is. Only sessions count here, whatever else the request carries.
    pub(crate) fn identify(&self, gate: &Gate, headers: &HeaderMap) -> Option<Session> {
        if gate.is_open() {
            return Some(self.sessions.of_everybody());
        }
        sent_sessions(headers).take(SESSIONS_SENT).find_map(|cookie| self.sessions.find(gate, cookie, wall_clock()))
    }
}

/// Returns whether a request is for a page: of the dashboard, or of a browser that does not know where to begin.
pub(crate) fn is_for_page(request: &Request) -> bool {
    match request.uri().path() {
        ROOT => is_read(request.method()) && prefers_html(request.headers()),
        path => path == PAGES || path.starts_with(PAGES_PREFIX),
    }
}

/// Makes the checks that come before all others, and returns the answer if one fails. What changes something must come from a page of ours.
/// What only shows something may be a link on any page: it is opened, and the page with the link sees nothing of it.
pub(crate) fn refusal_page(gate: &Gate, hosts: &Hosts, head: &Parts) -> Option<Response> {
    let Ok(host) = browser_check::host_field(head.version, &head.headers) else {
        let mut page = problem_page(StatusCode::BAD_REQUEST, "The request cannot be read", "It needs one Host header.");
        page.extensions_mut().insert(ErrorCode::InvalidRequest);
        return Some(page);
    };
    let for_host = || if gate.is_open() { browser_check::check_host(hosts, host, head) } else { Ok(()) };
    let may_be_linked = is_read(&head.method) && (!gate.is_open() || is_opened(&head.headers));
    let of_sender = || if may_be_linked { Ok(()) } else { browser_check::check_sender(host, head) };
    for_host().and_then(|()| of_sender()).err().map(foreign_page)
}

/// Returns where a browser finds the pages, if it asks for what is above them.
pub(crate) fn page_redirect(head: &Parts) -> Option<Response> {
    if !is_read(&head.method) || head.uri.path().starts_with(PAGES_PREFIX) {
        return None;
    }
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(FIRST_PAGE));
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    Some(response)
}

/// Returns the answer to a request for a page: what was written for programs is replaced by a page.
pub(crate) fn completed_page(mut response: Response) -> Response {
    let status = response.status();
    let is_for_programs = response.extensions().get::<ErrorCode>().is_some();
    let (title, advice) = match status {
        StatusCode::METHOD_NOT_ALLOWED => ("This cannot be done here", "Go back, reload the page, and try again."),
        StatusCode::NOT_FOUND if is_for_programs => {
            ("There is no such page", "Check the address, or go to the overview.")
        }
        _ if is_for_programs => ("The server made a mistake", "The log of the server says more; please report it."),
        _ => return response,
    };
    let allow = response.headers_mut().remove(ALLOW);
    let code = match status {
        StatusCode::METHOD_NOT_ALLOWED => Some(ErrorCode::MethodNotAllowed),
        _ => response.extensions().get::<ErrorCode>().copied(),
    };
    let mut page = problem_page(status, title, advice);
    page.headers_mut().extend(allow.map(|allow| (ALLOW, allow)));
    code.map(|code| page.extensions_mut().insert(code));
    page
}

fn foreign_page(reason: BrowserRefusal) -> Response {
    let (title, advice) = match reason {
        BrowserRefusal::Host => (
            "This name is not known here",
            "Without a token this server can be reached as 127.0.0.1 or localhost only. Use that address, or start the server with \
             --allow-host and the name that you use.",
        ),
        BrowserRefusal::Origin | BrowserRefusal::CrossSite => (
            "This did not come from a page of this server",
            "Nothing was done. Enter the address of the dashboard yourself, and try again. If there is a proxy in front of the server, \
             it must pass the Host header on as it comes.",
        ),
    };
    let mut page = problem_page(StatusCode::FORBIDDEN, title, advice);
    page.extensions_mut().insert(ErrorCode::Forbidden);
    page
}

fn is_read(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

/// Returns whether a browser says that it opens a page in a tab, and does not fetch it for another page or show it inside of one.
fn is_opened(headers: &HeaderMap) -> bool {
    let says = |name: &HeaderName, word: &[u8]| headers.get(name).is_some_and(|value| value.as_bytes() == word);
    says(&SEC_FETCH_MODE, b"navigate") && says(&SEC_FETCH_DEST, b"document")
}

/// Returns whether HTML is named, and nothing is said that puts JSON before it or beside it: programs get the answer for programs.
fn prefers_html(headers: &HeaderMap) -> bool {
    let (mut html, mut json) = (0, 0);
    for range in MediaRange::accepted(headers) {
        if range.name.eq_ignore_ascii_case(HTML) {
            html = range.weight;
        } else if range.name.eq_ignore_ascii_case(JSON) {
            json = range.weight;
        }
    }
    html > json
}

#[cfg(test)]
mod tests {
    use hyper::header::ACCEPT;

    use super::*;

    #[test]
    fn browsers_are_told_from_programs_by_what_they_accept() {
        let cases = [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", true),
            ("text/html", true),
            ("TEXT/HTML; q=0.5, application/json;q=0.4", true),
            ("text/html, */*", true),
            ("*/*", false),
            ("", false),
            ("application/json", false),
            ("text/*", false),
            ("text/html, application/json", false),
            ("application/json;q=0.9, text/html;q=0.8", false),
            ("text/html;q=0", false),
            ("text/html;q=2", false),
            ("text/html;q=x", false),
            ("text/htmlx", false),
        ];
        for (accept, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(prefers_html(&headers), expected, "{accept:?}");
        }
        assert!(!prefers_html(&HeaderMap::new()));
    }
}
