//! The cookies of the dashboard: session, theme, notice. All are for `/ui/` and for requests of our own pages only.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HeaderValue};

/// Who is signed in. The server reads it.
pub(crate) const SESSION: &str = "taskqueue_session";
/// `light` or `dark`; without it the system decides.
pub(crate) const THEME: &str = "taskqueue_theme";
/// What the last action did, until the next page has shown it.
pub(crate) const NOTICE: &str = "taskqueue_notice";

/// The value of a cookie that was sent.
pub(crate) fn read<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    all(headers, name).next()
}

/// The sessions that were sent. A browser sends several if another program on the same host has set one, too.
pub fn sent_sessions(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    all(headers, SESSION)
}

fn all<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(known, _)| *known == name).map(|(_, value)| value)
}

/// The header that sets a cookie whose value is made of letters, digits, `-`, `_`, `.`. `lifetime` zero removes it.
pub(crate) fn set(name: &str, value: &str, lifetime: Duration, secure: bool) -> Option<HeaderValue> {
    let secure = if secure { "; Secure" } else { "" };
    let seconds = lifetime.as_secs();
    HeaderValue::try_from(format!("{name}={value}; Path=/ui/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"))
        .ok()
}
