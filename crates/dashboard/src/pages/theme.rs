//! The choice of light or dark. It is kept by the browser, and sent with each request, so that no page appears in the wrong colours.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::SET_COOKIE;

use crate::cookies;
use crate::form::{self, SMALL_FORM_BYTES};
use crate::layout::{PageResult, own_address, see_other};
use crate::visit::{Theme, Visit};

const LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// Takes the choice and goes back.
pub(crate) async fn choose(visit: Visit, request: Request<Body>) -> PageResult {
    let form = form::read(&visit, request.into_body(), SMALL_FORM_BYTES).await?;
    let cookie = match form.get("theme").and_then(Theme::parse) {
        Some(theme) => cookies::set(cookies::THEME, theme.as_str(), LIFETIME, false),
        None => cookies::set(cookies::THEME, "", Duration::ZERO, false),
    };
    let mut response = see_other(own_address(form.get("next")));
    response.headers_mut().extend(cookie.map(|value| (SET_COOKIE, value)));
    Ok(response)
}
