//! Requests for pages of the dashboard, before they are routed: which ones these are, who looks, how a browser gets from `/` to them,
//! and that refusals are pages, too. The pages themselves are in the crate `dashboard`.
//!
//! A browser keeps a session instead of the token (docs/decisions/0061). Nothing is stored: a session says until when it is good and whose
//! it is, sealed by a key that is made of the secret of the installation and of the digest of the token. So every server of the
//! installation accepts it, it ends with its token, and neither the database nor the tokens file is enough to forge one.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use hyper::header::{ALLOW, HeaderName, HeaderValue, LOCATION, VARY};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, StatusCode};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use taskqueue_api::ErrorCode;
use taskqueue_core::{Scope, Timestamp};
use taskqueue_dashboard::{Mode, SessionCookie, SignInRefusal, Viewer, problem_page, sent_sessions};
use taskqueue_store::InstallationSecret;
use taskqueue_store::clock::wall_clock;

use crate::auth::{Caller, Gate, NamedToken, TOKEN_ID_BYTES, TokenDigest, TokenId, digest};
use crate::browser_check::{self, BrowserRefusal, Hosts};
use crate::endpoints::PAGES_PREFIX;
use crate::prefer::MediaRange;

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
    /// That of the installation, by which sessions are sealed.
    secret: InstallationSecret,
    pub(crate) mode: Mode,
    /// True if browsers reach this server with TLS.
    pub(crate) is_tls: bool,
}

impl Pages {
    /// Returns the pages of a server; `None` if there are none.
    pub(crate) fn new(secret: InstallationSecret, mode: Mode, is_tls: bool) -> Option<Self> {
        (mode != Mode::Off).then_some(Self { secret, mode, is_tls })
    }

    /// Returns whose request it is. Only sessions count here, whatever else the request carries.
    pub(crate) fn identify(&self, gate: &Gate, headers: &HeaderMap) -> Option<Session> {
        if gate.is_open() {
            return Some(self.of_everybody());
        }
        sent_sessions(headers).take(SESSIONS_SENT).find_map(|cookie| self.find(gate, cookie, wall_clock()))
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
    // The first page is the overview.
    let headers = [(LOCATION, HeaderValue::from_static(PAGES_PREFIX)), (VARY, HeaderValue::from_static("accept"))];
    Some((StatusCode::SEE_OTHER, headers).into_response())
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

/// How long a session is good.
const LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// The form of the cookie: the version, the end in microseconds, the hidden id of the token, the seal.
const VERSION: u8 = 1;
const TIME_BYTES: usize = 8;
const SEAL_BYTES: usize = 32;
const COOKIE_BYTES: usize = 1 + TIME_BYTES + TOKEN_ID_BYTES + SEAL_BYTES;

/// A session that is good.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) viewer: Viewer,
    /// Its token, if that has a name.
    pub(crate) token: Option<Arc<NamedToken>>,
}

/// Makes and reads sessions.
impl Pages {
    /// Returns a new session for whoever has this token.
    pub(crate) fn begin(&self, gate: &Gate, token: &str, now: Timestamp) -> Result<SessionCookie, SignInRefusal> {
        let digest = digest(token.as_bytes());
        let caller = gate.with_digest(&digest, || now).ok_or(SignInRefusal::Wrong)?;
        if caller.is_some_and(|token| !token.grant.scopes.allow(Scope::Read)) {
            return Err(SignInRefusal::NotForReading);
        }
        let lifetime_micros = i64::try_from(LIFETIME.as_micros()).unwrap_or_default();
        let end = now.as_micros().saturating_add(lifetime_micros).to_be_bytes();
        let id = TokenId::of(&digest);
        let sealed = self.seal(&digest, end, id);
        let value = [&[VERSION][..], &end, &self.hide(end, id).0, &sealed].concat();
        Ok(SessionCookie { value: BASE64_URL_SAFE_NO_PAD.encode(value), lifetime: LIFETIME })
    }

    /// Returns the session of a cookie, while it and its token are good.
    fn find(&self, gate: &Gate, cookie: &str, now: Timestamp) -> Option<Session> {
        // Every form of base64 is shorter than twice its content.
        let bytes = (cookie.len() <= 2 * COOKIE_BYTES).then(|| BASE64_URL_SAFE_NO_PAD.decode(cookie).ok())??;
        let (&version, rest) = bytes.split_first()?;
        let (&end, rest) = rest.split_first_chunk::<TIME_BYTES>()?;
        let (&hidden, sealed) = rest.split_first_chunk::<TOKEN_ID_BYTES>()?;
        if version != VERSION || i64::from_be_bytes(end) <= now.as_micros() {
            return None;
        }
        let id = self.hide(end, TokenId(hidden));
        let (digest, caller) = gate.with_id(&id, || now)?;
        let is_ours = bool::from(sealed.ct_eq(&self.seal(&digest, end, id)));
        is_ours.then(|| self.session(&digest, caller))
    }

    /// Whoever looks at a server that asks for no token.
    fn of_everybody(&self) -> Session {
        let form_token = mac(self.secret.as_bytes(), &[b"form"]);
        Session { viewer: Viewer::new(None, &text(&form_token), false), token: None }
    }

    fn session(&self, digest: &TokenDigest, token: Caller) -> Session {
        let form_token = text(&mac(&self.key(digest), &[b"form"]));
        let access = token.as_ref().map(|token| (Arc::clone(&token.name), Arc::clone(&token.grant)));
        Session { viewer: Viewer::new(access, &form_token, true), token }
    }

    /// Returns the key for what is between the servers and the bearers of one token.
    fn key(&self, digest: &TokenDigest) -> [u8; SEAL_BYTES] {
        mac(self.secret.as_bytes(), &[b"token", digest])
    }

    fn seal(&self, digest: &TokenDigest, end: [u8; TIME_BYTES], id: TokenId) -> [u8; SEAL_BYTES] {
        mac(&self.key(digest), &[b"session", &[VERSION], &end, &id.0])
    }

    /// Returns the id as it stands in the cookie, and back. Without this whoever gets hold of a cookie could try out tokens
    /// until one has that id, without asking a server.
    fn hide(&self, end: [u8; TIME_BYTES], TokenId(mut id): TokenId) -> TokenId {
        let mask = mac(self.secret.as_bytes(), &[b"id", &[VERSION], &end]);
        id.iter_mut().zip(mask).for_each(|(byte, other)| *byte ^= other);
        TokenId(id)
    }
}

/// Returns the HMAC-SHA-256 of parts that no other list of parts in this file makes: the first one says what it is for, the others have a
/// fixed length.
fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; SEAL_BYTES] {
    // HMAC takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { unreachable!() };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn text(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use hyper::header::ACCEPT;

    use super::*;

    #[test]
    fn browsers_are_told_from_programs_by_what_they_accept() {
        let rows: &[(&[&str], bool)] = &[
            (&["text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", "text/html"], true),
            (&["TEXT/HTML; q=0.5, application/json;q=0.4", "text/html, */*"], true),
            (&["", "*/*", "application/json", "text/*", "text/html, application/json"], false),
            (&["application/json;q=0.9, text/html;q=0.8", "text/html;q=0", "text/html;q=2"], false),
            (&["text/html;q=x", "text/htmlx"], false),
        ];
        for (values, expected) in rows {
            for accept in *values {
                let mut headers = HeaderMap::new();
                headers.insert(ACCEPT, HeaderValue::from_static(accept));
                assert_eq!(prefers_html(&headers), *expected, "{accept:?}");
            }
        }
        assert!(!prefers_html(&HeaderMap::new()));
    }
}

#[cfg(test)]
mod session_tests {
    use taskqueue_core::access::{Grant, QueuePattern};

    use super::*;
    use crate::auth::{SharedTokens, Token, TokenSet};

    const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

    fn after(seconds: i64) -> Timestamp {
        Timestamp::from_micros(NOW.as_micros() + seconds * 1_000_000)
    }

    fn sessions(secret: u8) -> Pages {
        Pages::new(InstallationSecret::from_bytes(&[secret; 32]).unwrap(), Mode::Full, false).unwrap()
    }

    fn named(name: &str, scope: Scope, expires_at: Option<Timestamp>) -> (TokenDigest, NamedToken) {
        let queues = QueuePattern::parse("experiments").into_iter().collect();
        let grant = Grant { scopes: [scope].into_iter().collect(), queues };
        (digest(name.as_bytes()), NamedToken::new(name, grant, expires_at))
    }

    /// `reader` sees one queue, `brief` too but only for a minute, `worker` sees nothing.
    fn tokens() -> TokenSet {
        let tokens =
            [("reader", Scope::Read, None), ("brief", Scope::Read, Some(after(60))), ("worker", Scope::Work, None)];
        tokens.into_iter().map(|(name, scope, end)| named(name, scope, end)).collect()
    }

    fn gate() -> Gate {
        Gate::new(Token::parse("all"), Some(SharedTokens::new(tokens())))
    }

    fn cookie(token: &str) -> String {
        sessions(1).begin(&gate(), token, NOW).unwrap().value
    }

    fn is_good(cookie: &str) -> bool {
        sessions(1).find(&gate(), cookie, NOW).is_some()
    }

    #[test]
    fn a_session_opens_what_its_token_opens() {
        let everything = sessions(1).find(&gate(), &cookie("all"), NOW).unwrap();
        assert!(everything.token.is_none() && everything.viewer.has_session);
        assert!(everything.viewer.name().is_none() && everything.viewer.may(Scope::Admin, "any"));
        let some = sessions(1).find(&gate(), &cookie("reader"), NOW).unwrap();
        assert_eq!((some.viewer.name(), &*some.token.unwrap().name), (Some("reader"), "reader"));
        assert!(some.viewer.sees("experiments") && !some.viewer.sees("other"));
        assert!(!some.viewer.may(Scope::Submit, "experiments"));
    }

    #[test]
    fn a_wrong_token_and_one_that_cannot_read_get_no_session() {
        let begin = |token| sessions(1).begin(&gate(), token, NOW).map(drop);
        assert_eq!(begin("worker"), Err(SignInRefusal::NotForReading));
        for wrong in ["", "al", "alll", "READER", "all "] {
            assert_eq!(begin(wrong), Err(SignInRefusal::Wrong), "{wrong:?}");
        }
        let late = sessions(1).begin(&gate(), "brief", after(60)).map(drop);
        assert_eq!(late, Err(SignInRefusal::Wrong), "it has expired");
        let expected = Err(SignInRefusal::Wrong);
        assert_eq!(sessions(1).begin(&Gate::default(), "all", NOW).map(drop), expected, "there is none");
    }

    #[test]
    fn every_server_with_the_secret_and_the_token_accepts_a_session_and_no_other_one() {
        let cookie = cookie("reader");
        let other_server = Gate::new(None, Some(SharedTokens::new(tokens())));
        assert!(sessions(1).find(&other_server, &cookie, NOW).is_some());
        assert!(sessions(2).find(&other_server, &cookie, NOW).is_none(), "another installation");
        let without_the_token = Gate::new(Token::parse("all"), None);
        assert!(sessions(1).find(&without_the_token, &cookie, NOW).is_none());
        assert!(sessions(1).find(&Gate::default(), &cookie, NOW).is_none());
    }

    #[test]
    fn a_session_ends_after_twelve_hours_with_its_token_or_when_that_is_removed() {
        let begun = sessions(1).begin(&gate(), "reader", NOW).unwrap();
        assert_eq!(begun.lifetime, Duration::from_secs(43_200));
        let at = |seconds| sessions(1).find(&gate(), &begun.value, after(seconds)).is_some();
        assert_eq!([at(0), at(43_199), at(43_200), at(99_999)], [true, true, false, false]);
        let brief = cookie("brief");
        let at = |seconds| sessions(1).find(&gate(), &brief, after(seconds)).is_some();
        assert_eq!([at(59), at(60)], [true, false]);

        let shared = SharedTokens::new(tokens());
        let gate = Gate::new(None, Some(shared.clone()));
        assert!(sessions(1).find(&gate, &begun.value, NOW).is_some());
        shared.replace([named("brief", Scope::Read, None)].into_iter().collect());
        assert!(sessions(1).find(&gate, &begun.value, NOW).is_none(), "its token was removed");
        assert!(sessions(1).find(&gate, &brief, NOW).is_some(), "another one was not");
    }

    #[test]
    fn a_token_that_may_do_less_by_now_opens_less() {
        let shared = SharedTokens::new([named("x", Scope::Admin, None)].into_iter().collect());
        let gate = Gate::new(None, Some(shared.clone()));
        let cookie = sessions(1).begin(&gate, "x", NOW).unwrap().value;
        shared.replace([named("x", Scope::Work, None)].into_iter().collect());
        let session = sessions(1).find(&gate, &cookie, NOW).unwrap();
        assert!(!session.viewer.may_somewhere(Scope::Read) && !session.viewer.may(Scope::Admin, "experiments"));
    }

    #[test]
    fn no_bit_of_a_session_can_be_changed_and_no_part_of_it_left_out() {
        let good = BASE64_URL_SAFE_NO_PAD.decode(cookie("reader")).unwrap();
        assert_eq!(good.len(), COOKIE_BYTES);
        for place in 0..good.len() * 8 {
            let mut forged = good.clone();
            forged[place / 8] ^= 1 << (place % 8);
            assert!(!is_good(&text(&forged)), "bit {place}");
        }
        for length in 0..good.len() {
            assert!(!is_good(&text(&good[..length])), "{length} bytes");
        }
        let longer = [&good[..], &[0]].concat();
        let huge = "A".repeat(1 << 20);
        for other in [text(&longer), format!("{}=", text(&good)), format!(" {}", text(&good)), huge, "é".to_owned()] {
            assert!(!is_good(&other));
        }
        assert!(is_good(&text(&good)));
    }

    /// Whoever has the tokens file knows digests and ids; whoever has a backup of the database knows the secret.
    #[test]
    fn neither_the_tokens_file_nor_the_database_is_enough_to_forge_a_session() {
        let (digest, end) = (digest(b"reader"), after(60).as_micros().to_be_bytes());
        let cookie = |by: &Pages, sealed_for: &TokenDigest| {
            let id = TokenId::of(&digest);
            text(&[&[VERSION][..], &end, &by.hide(end, id).0, &by.seal(sealed_for, end, id)].concat())
        };
        assert!(is_good(&cookie(&sessions(1), &digest)), "with both it works");
        assert!(!is_good(&cookie(&sessions(0), &digest)), "without the secret");
        assert!(!is_good(&cookie(&sessions(1), &[0; 32])), "without the digest");
    }

    #[test]
    fn a_session_tells_nothing_of_its_token_to_who_does_not_have_the_secret() {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(cookie("reader")).unwrap();
        let id = TokenId::of(&digest(b"reader"));
        assert!(!bytes.windows(TOKEN_ID_BYTES).any(|part| part == id.0));
    }

    #[test]
    fn viewers_with_one_token_have_one_form_token_and_others_have_others() {
        let form_token = |secret, token: &str| {
            let cookie = sessions(secret).begin(&gate(), token, NOW).unwrap().value;
            sessions(secret).find(&gate(), &cookie, NOW).unwrap().viewer.form_token.to_string()
        };
        let later = sessions(1).begin(&gate(), "all", after(9)).unwrap().value;
        let later = sessions(1).find(&gate(), &later, after(9)).unwrap().viewer;
        assert!(later.has_form_token(&form_token(1, "all")));
        let everybody = |secret| sessions(secret).of_everybody().viewer.form_token.to_string();
        let all = [form_token(1, "all"), form_token(1, "reader"), form_token(2, "all"), everybody(1), everybody(2)];
        for (place, one) in all.iter().enumerate() {
            assert_eq!(one.len(), 43);
            assert!(!all[..place].contains(one));
        }
        assert!(!sessions(1).of_everybody().viewer.has_session);
    }
}
