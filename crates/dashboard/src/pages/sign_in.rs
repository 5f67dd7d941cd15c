//! Signing in with a token, and signing out. The token goes from the form to the server and nowhere else; the browser keeps a session.

use std::time::Duration;

use askama::Template;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, SET_COOKIE};
use axum::response::Response;

use crate::form::{self, SMALL_FORM_BYTES};
use crate::layout::{PageResult, html, own_address, see_other};
use crate::router::SIGN_IN;
use crate::state::Dashboard;
use crate::visit::{Stranger, Theme, Visit};
use crate::{assets, cookies};

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    asset_set: &'static str,
    theme: Option<Theme>,
    /// Where to go afterwards.
    next: String,
    is_wrong: bool,
}

/// The form.
pub(crate) async fn form(stranger: Stranger) -> Response {
    show(&stranger, own_address(stranger.query.get("next")), false)
}

/// Takes the token.
pub(crate) async fn sign_in(
    State(dashboard): State<Dashboard>,
    stranger: Stranger,
    request: Request<Body>,
) -> PageResult {
    let (head, body) = request.into_parts();
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let form = form::read_fields(content_type, body, SMALL_FORM_BYTES).await?;
    let next = own_address(form.get("next"));
    let token = form.get("token").unwrap_or_default().trim();
    let Some(session) = dashboard.host().sign_in(token) else { return Ok(show(&stranger, next, true)) };
    let mut response = see_other(next);
    let cookie = cookies::set(cookies::SESSION, &session.value, session.lifetime, dashboard.host().is_tls());
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

fn show(stranger: &Stranger, next: &str, is_wrong: bool) -> Response {
    let page = SignInPage { asset_set: assets::SET, theme: stranger.theme, next: next.to_owned(), is_wrong };
    let status = if is_wrong { StatusCode::FORBIDDEN } else { StatusCode::OK };
    html(status, page.render().unwrap_or_default())
}
