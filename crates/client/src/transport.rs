//! Sends one request and reads its answer, with the HTTP library, whose types are used nowhere else. It repeats nothing, and
//! limits the size of the answer.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, RETRY_AFTER, SERVER};
use reqwest::{redirect, retry};
use taskqueue_api::{headers, paths};
use taskqueue_core::trace::TraceParent;

use crate::answer::Answer;
use crate::call::Call;
use crate::config::{CONNECT_TIMEOUT, Config, ServerAddress, Token};
use crate::error::{ConfigError, Error};
use crate::tls;

/// Idle connections are closed before common servers and proxies close them (60 seconds and more): a request on a connection
/// that is being closed may be lost.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const USER_AGENT: &str = concat!("taskqueue/", env!("CARGO_PKG_VERSION"));

/// The connections to one server.
#[derive(Debug)]
pub(crate) struct Transport {
    http: reqwest::Client,
    base: ServerAddress,
    token: Option<Token>,
    request_timeout: Duration,
}

impl Transport {
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        let Config { base, token, request_timeout, .. } = config.clone();
        if config.refuses_insecure_token() {
            return Err(ConfigError::InsecureToken);
        }
        let builder = reqwest::Client::builder()
            .user_agent(USER_AGENT)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            // A web proxy named by the environment must not see the token.
            .no_proxy()
            .https_only(base.is_https())
            .tls_backend_preconfigured(if base.is_https() {
                tls::for_https(&config.trust)?
            } else {
                tls::for_plain_http()?
            });
        let builder = match base.socket.as_deref() {
            Some(path) => builder.unix_socket(path),
            None => builder,
        };
        let http = builder.build().map_err(|error| ConfigError::Tls { reason: chain(&error) })?;
        Ok(Self { http, base, token, request_timeout })
    }

    /// Sends the call once and reads the whole answer.
    pub(crate) async fn send(&self, call: &Call, trace: Option<TraceParent>) -> Result<Answer, Error> {
        let wait = Duration::from_secs(call.wait_seconds.unwrap_or_default().into());
        let mut request = self.http.request(call.method.clone(), self.base.url_of(call));
        request = request.timeout(self.request_timeout.saturating_add(wait));
        if let Some(token) = self.token.as_ref().filter(|_| call.path != paths::HEALTH) {
            request = request.header(AUTHORIZATION, token.0.clone());
        }
        if let Some(seconds) = call.wait_seconds {
            request = request.header(headers::PREFER, format!("wait={seconds}"));
        }
        if let Some(trace) = trace {
            request = request.header(headers::TRACEPARENT, trace.to_string());
        }
        if let Some(body) = &call.body {
            request = request.header(CONTENT_TYPE, headers::JSON).body(body.clone());
        }
        let response = request.send().await.map_err(transport)?;
        read(response, call.answer_bytes).await
    }
}

async fn read(mut response: reqwest::Response, most_bytes: usize) -> Result<Answer, Error> {
    let mut answer = Answer {
        status: response.status().as_u16(),
        server_version: text(response.headers(), headers::SERVER_VERSION),
        retry_after: text(response.headers(), RETRY_AFTER.as_str()).and_then(|value| seconds(&value)),
        server: text(response.headers(), SERVER.as_str()),
        wait_applied: text(response.headers(), headers::PREFERENCE_APPLIED).and_then(|value| applied_wait(&value)),
        body: Vec::new(),
    };
    while let Some(chunk) = response.chunk().await.map_err(transport)? {
        if answer.body.len() + chunk.len() > most_bytes {
            let message = format!("it exceeds {most_bytes} bytes");
            return Err(answer.protocol_error(message));
        }
        answer.body.extend_from_slice(&chunk);
    }
    Ok(answer)
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// `Retry-After` as seconds. Its other form, a date, would need two clocks that agree, and is ignored.
fn seconds(value: &str) -> Option<Duration> {
    value.trim().parse().ok().map(Duration::from_secs)
}

/// The seconds in `wait=N`, which may stand among other preferences (RFC 7240).
fn applied_wait(value: &str) -> Option<u32> {
    value.split([',', ';']).find_map(|preference| preference.trim().strip_prefix("wait=")?.parse().ok())
}

fn transport(error: reqwest::Error) -> Error {
    let may_have_arrived = !error.is_connect() && !error.is_builder();
    // Without the URL: its query may hold data that must not be logged.
    Error::Transport { message: chain(&error.without_url()), may_have_arrived }
}

/// The message of an error with those of its causes. A certificate that is not trusted is cause enough.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = || std::iter::successors(error.source(), |cause| cause.source());
    match causes().find_map(tls::own_words) {
        Some(words) => format!("{error}: {words}"),
        None => causes().fold(error.to_string(), |text, cause| format!("{text}: {cause}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_with_meaning_are_read_and_others_ignored() {
        assert_eq!(seconds(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(seconds("-1"), None);
        assert_eq!(seconds("Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(applied_wait("wait=20"), Some(20));
        assert_eq!(applied_wait("respond-async, wait=5"), Some(5));
        assert_eq!(applied_wait("wait"), None);
    }
}
