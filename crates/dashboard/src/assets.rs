//! Style and scripts, compiled into the binary. Their addresses carry a digest of all of them, so browsers keep them for ever; a page
//! of another build gets the current ones and asks again next time.

use axum::extract::Path;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, VARY,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// Where they are.
pub(crate) const PREFIX: &str = "/ui/assets/";

struct Asset {
    name: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// One asset.
pub(crate) async fn asset(Path((set, name)): Path<(String, String)>, headers: HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return Problem::not_found("file", "Reload the page.").into_response();
    };
    let accepts_gzip = headers
        .get_all(ACCEPT_ENCODING)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| coding.trim().split(';').next() == Some("gzip"));
    let cache = if set == SET { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut head: Vec<(HeaderName, HeaderValue)> = vec![
        (CONTENT_TYPE, HeaderValue::from_static(content_type(asset.name))),
        (CACHE_CONTROL, HeaderValue::from_static(cache)),
        (VARY, HeaderValue::from_static("accept-encoding")),
    ];
    if accepts_gzip {
        head.push((CONTENT_ENCODING, HeaderValue::from_static("gzip")));
    }
    let body = if accepts_gzip { asset.gzip } else { asset.plain };
    let mut response = (StatusCode::OK, body).into_response();
    response.headers_mut().extend(head);
    response
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}
