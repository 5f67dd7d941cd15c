//! Signing in with a token, and signing out. The token goes from the form to the server and nowhere else; the browser keeps a session.

use std::time::Duration;

use askama::Template;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, SET_COOKIE};
use axum::response::Response;

use crate::form::{self, SMALL_FORM_BYTES};
use crate::host::SignInRefusal;
use crate::layout::{PageResult, html, own_address, see_other};
use crate::router::SIGN_IN;
use crate::state::Dashboard;
use crate::visit::{Stranger, Theme, Visit};
use crate::{assets, cookies};

/// A token and an address. Strangers may send it, so it is small.
const TOKEN_FORM_BYTES: usize = 8 * 1024;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    asset_set: &'static str,
    theme: Option<Theme>,
    /// Where to go afterwards.
    next: String,
    refusal: Option<SignInRefusal>,
}

/// The form.
pub(crate) async fn form(stranger: Stranger) -> Response {
    let next = own_address(stranger.query.get("next"));
    if stranger.needs_no_session { see_other(next) } else { show(&stranger, next, None) }
}

/// Takes the token.
pub(crate) async fn sign_in(
    State(dashboard): State<Dashboard>,
    stranger: Stranger,
    request: Request<Body>,
) -> PageResult {
    let (head, body) = request.into_parts();
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let form = form::read_fields(content_type, body, TOKEN_FORM_BYTES).await?;
    let next = own_address(form.get("next"));
    let token = form.get("token").unwrap_or_default().trim();
    let session = match dashboard.host().sign_in(token) {
        Ok(session) => session,
        Err(refusal) => return Ok(show(&stranger, next, Some(refusal))),
    };
    let mut response = see_other(next);
    let is_tls = dashboard.host().is_tls() || stranger.is_tls;
    let cookie = cookies::set(cookies::SESSION, &session.value, session.lifetime, is_tls);
    response.headers_mut().extend(cookie.map(|value| (SET_COOKIE, value)));
    Ok(response)
}

/// Ends the session of this browser.
pub(crate) async fn sign_out(visit: Visit, request: Request<Body>) -> PageResult {
    form::read(&visit, request.into_body(), SMALL_FORM_BYTES).await?;
    let mut response = see_other(SIGN_IN);
    let cookie = cookies::set(cookies::SESSION, "", Duration::ZERO, false);
    response.headers_mut().extend(cookie.map(|value| (SET_COOKIE, value)));
    Ok(response)
}

fn show(stranger: &Stranger, next: &str, refusal: Option<SignInRefusal>) -> Response {
    let page = SignInPage { asset_set: assets::SET, theme: stranger.theme, next: next.to_owned(), refusal };
    let status = if refusal.is_some() { StatusCode::FORBIDDEN } else { StatusCode::OK };
    html(status, page.render().unwrap_or_default())
}
