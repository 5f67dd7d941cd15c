//! Whether the server answers, as a view tells it.

use std::time::{Duration, Instant};

use taskqueue_client::Error;

/// Two rounds may be missed, with this much for the requests, before data counts as old.
const LATE_BY: Duration = Duration::from_secs(1);

/// Why a round failed, in the room of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) headline: &'static str,
    pub(crate) message: String,
}

impl Trouble {
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            // What the network says comes last in its chain of causes.
            Error::Transport { message, .. } => {
                Self { headline: "NO ANSWER", message: message.rsplit(": ").next().unwrap_or(message).to_owned() }
            }
            refusal => Self { headline: "REFUSED", message: refusal.to_string() },
        }
    }
}

/// What is known of the contact to the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contact {
    /// When the data on the screen came.
    pub(crate) answered_at: Option<Instant>,
    /// Why the latest round failed; nothing when it did not.
    pub(crate) trouble: Option<Trouble>,
    /// When the next round begins; nothing while one is under way or the view is paused.
    pub(crate) next_at: Option<Instant>,
}

impl Contact {
    /// How old the data is.
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        self.answered_at.map(|at| now.saturating_duration_since(at))
    }

    /// How old the data is, if it is older than it should be with this interval.
    pub(crate) fn late(&self, now: Instant, interval: Duration) -> Option<Duration> {
        self.age(now).filter(|age| *age > interval.saturating_mul(2).saturating_add(LATE_BY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_old_when_two_rounds_were_missed() {
        let start = Instant::now();
        let contact = Contact { answered_at: Some(start), ..Contact::default() };
        let late = |seconds| contact.late(start + Duration::from_secs(seconds), Duration::from_secs(2));
        assert_eq!((late(5), late(6)), (None, Some(Duration::from_secs(6))));
        assert_eq!(Contact::default().late(start, Duration::ZERO), None);
    }

    #[test]
    fn trouble_tells_whether_there_was_an_answer() {
        let lost = Error::Transport { message: "sending: connect: refused".to_owned(), may_have_arrived: false };
        assert_eq!(Trouble::of(&lost), Trouble { headline: "NO ANSWER", message: "refused".to_owned() });
        let nonsense = Error::Protocol { status: 200, message: "empty".to_owned() };
        assert_eq!(Trouble::of(&nonsense).headline, "REFUSED");
    }
}
