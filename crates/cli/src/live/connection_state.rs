//! Whether the server answers, and how old the data on the screen is.

use std::time::{Duration, Instant};

use taskqueue_client::Error;

use crate::explain_error::root_cause;

/// Data is stale when two refreshes were missed and this much more time has passed for the requests.
const STALE_MARGIN: Duration = Duration::from_secs(1);

/// Why a refresh failed, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FetchError {
    pub(crate) headline: &'static str,
    pub(crate) message: String,
}

impl FetchError {
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::Transport { message, .. } => Self { headline: "NO ANSWER", message: root_cause(message).to_owned() },
            Error::Protocol { message, .. } if error.is_proxy_without_server() => {
                Self { headline: "NO ANSWER", message: format!("a proxy does not reach the server ({message})") }
            }
            refusal => Self { headline: "REFUSED", message: refusal.to_string() },
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionState {
    pub(crate) answered_at: Option<Instant>,
    /// Why the latest refresh failed; none if it succeeded.
    pub(crate) error: Option<FetchError>,
    /// When the next refresh starts; none while one is running or the view is paused.
    pub(crate) next_at: Option<Instant>,
}

impl ConnectionState {
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        self.answered_at.map(|at| now.saturating_duration_since(at))
    }

    /// The age of the data, if that is too old for this interval.
    pub(crate) fn stale_age(&self, now: Instant, interval: Duration) -> Option<Duration> {
        self.age(now).filter(|age| *age > interval.saturating_mul(2).saturating_add(STALE_MARGIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_stale_when_two_refreshes_were_missed() {
        let start = Instant::now();
        let connection = ConnectionState { answered_at: Some(start), ..ConnectionState::default() };
        let late = |seconds| connection.stale_age(start + Duration::from_secs(seconds), Duration::from_secs(2));
        assert_eq!((late(5), late(6)), (None, Some(Duration::from_secs(6))));
        assert_eq!(ConnectionState::default().stale_age(start, Duration::ZERO), None);
    }

    #[test]
    fn a_fetch_error_says_whether_there_was_an_answer() {
        let lost = Error::Transport { message: "sending: connect: refused".to_owned(), may_have_arrived: false };
        assert_eq!(FetchError::of(&lost), FetchError { headline: "NO ANSWER", message: "refused".to_owned() });
        let nonsense = Error::Protocol { status: 200, message: "empty".to_owned(), from_taskqueue: true };
        assert_eq!(FetchError::of(&nonsense).headline, "REFUSED");
        let proxy = Error::Protocol { status: 502, message: "status 502".to_owned(), from_taskqueue: false };
        let message = "a proxy does not reach the server (status 502)".to_owned();
        assert_eq!(FetchError::of(&proxy), FetchError { headline: "NO ANSWER", message });
    }
}
