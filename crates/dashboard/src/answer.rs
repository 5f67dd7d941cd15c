//! How answers are made: pages of HTML, redirects, files, and the style and scripts that are compiled into the binary. Addresses of
//! assets carry a digest of all of them, so browsers keep them for ever; a page of another build gets the current ones and asks again next
//! time.

use axum::body::Body;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, LOCATION,
    SET_COOKIE, VARY,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

/// Where assets are.
pub(crate) const ASSETS_PREFIX: &str = "/ui/assets/";

struct Asset {
    name: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Returns an asset of a set, if there is one of this name.
pub(crate) fn asset(set: &str, name: &str, headers: &HeaderMap) -> Option<Response> {
    let asset = ASSETS.iter().find(|asset| asset.name == name)?;
    let accepted = headers.get_all(ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    let mut codings = accepted.flat_map(|value| value.split(','));
    let accepts_gzip = codings.any(|coding| coding.trim().split(';').next() == Some("gzip"));
    let cache = if set == SET { "public, max-age=31536000, immutable" } else { "no-cache" };
    let head = [(CONTENT_TYPE, content_type(name)), (CACHE_CONTROL, cache), (VARY, "accept-encoding")];
    Some(match accepts_gzip {
        true => (head, [(CONTENT_ENCODING, "gzip")], asset.gzip).into_response(),
        false => (head, asset.plain).into_response(),
    })
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

/// An answer with HTML that is asked for anew each time.
pub(crate) fn html(status: StatusCode, body: String) -> Response {
    let head = [(CONTENT_TYPE, "text/html; charset=utf-8"), (CACHE_CONTROL, "private, no-cache")];
    (status, head, Body::from(body)).into_response()
}

/// An answer that is not a page, such as a file. The disposition says whether it is saved, and by which name.
pub(crate) fn file(body: impl Into<Body>, content_type: &'static str, disposition: &str) -> Response {
    let head = [(CONTENT_TYPE, content_type), (CACHE_CONTROL, "private, no-cache")];
    let mut response = (head, body.into()).into_response();
    // Names are made of ids and names of queues, which a header can have.
    let disposition = HeaderValue::try_from(disposition).ok().map(|value| (CONTENT_DISPOSITION, value));
    response.headers_mut().extend(disposition);
    response
}

/// The answer to a form: look there.
pub(crate) fn see_other(address: &str) -> Response {
    let address = HeaderValue::try_from(address).unwrap_or(HeaderValue::from_static("/ui/"));
    (StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response()
}

/// The answer to a form that also has the browser keep a cookie, or drop one.
pub(crate) fn see_other_with(cookie: Option<HeaderValue>, address: &str) -> Response {
    let mut response = see_other(address);
    response.headers_mut().extend(cookie.map(|value| (SET_COOKIE, value)));
    response
}

/// Returns the first digits of a digest in hexadecimal.
pub(crate) fn hex_digits(digest: &[u8], bytes: usize) -> String {
    digest.iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}
