//! Signing in with a token, and signing out; the choice of light or dark. The token goes from the form to the server and nowhere else; the
//! browser keeps a session, and the colours, so that no page appears in the wrong ones.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;

use crate::address::{Query, SIGN_IN, own_address};
use crate::answer::{SET, html, see_other, see_other_with};
use crate::cookies;
use crate::host::{SignInRefusal, Viewer};
use crate::layout::PageResult;
use crate::state::Dashboard;
use crate::visit::{THEMES, Visit, read_fields, theme_of};

/// How long a browser keeps the choice of colours.
const THEME_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);
/// A token and an address. Strangers may send it, so it is small.
const TOKEN_FORM_BYTES: usize = 8 * 1024;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    asset_set: &'static str,
    theme: Option<&'static str>,
    /// Where to go afterwards.
    next: String,
    refusal: Option<SignInRefusal>,
}

/// The form.
pub(crate) async fn form(viewer: Option<Extension<Viewer>>, uri: Uri, headers: HeaderMap) -> Response {
    let query = Query::parse(uri.query().unwrap_or_default());
    let next = own_address(query.get("next"));
    // A viewer without a session is one to whom this server shows its pages as to everybody.
    let needs_session = viewer.is_none_or(|Extension(viewer)| viewer.has_session);
    if needs_session { sign_in_page(&headers, next, None) } else { see_other(next) }
}

/// Takes the token.
pub(crate) async fn sign_in(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap, body: Body) -> PageResult {
    let form = read_fields(&headers, body, TOKEN_FORM_BYTES).await?;
    let next = own_address(form.get("next"));
    let token = form.get("token").unwrap_or_default().trim();
    let session = match dashboard.host.sign_in(token) {
        Ok(session) => session,
        Err(refusal) => return Ok(sign_in_page(&headers, next, Some(refusal))),
    };
    // With a proxy in front of it the server does not know. The sender of a form was compared with the host by then.
    let says_tls = headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    let is_tls = dashboard.host.is_tls() || says_tls;
    Ok(see_other_with(cookies::set(cookies::SESSION, &session.value, session.lifetime, is_tls), next))
}

/// Ends the session of this browser.
pub(crate) async fn sign_out(visit: Visit, body: Body) -> PageResult {
    visit.form(body).await?;
    Ok(see_other_with(cookies::set(cookies::SESSION, "", Duration::ZERO, false), SIGN_IN))
}

fn sign_in_page(headers: &HeaderMap, next: &str, refusal: Option<SignInRefusal>) -> Response {
    let page = SignInPage { asset_set: SET, theme: theme_of(headers), next: next.to_owned(), refusal };
    let status = if refusal.is_some() { StatusCode::FORBIDDEN } else { StatusCode::OK };
    html(status, page.render().unwrap_or_default())
}

/// Takes the choice and goes back.
pub(crate) async fn choose_theme(visit: Visit, body: Body) -> PageResult {
    let form = visit.form(body).await?;
    let chosen = THEMES.into_iter().find(|theme| form.get("theme") == Some(*theme));
    let (theme, lifetime) = chosen.map_or(("", Duration::ZERO), |theme| (theme, THEME_LIFETIME));
    let cookie = cookies::set(cookies::THEME, theme, lifetime, false);
    Ok(see_other_with(cookie, own_address(form.get("next"))))
}
