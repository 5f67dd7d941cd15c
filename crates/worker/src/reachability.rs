//! Whether calls to the server succeed: one event when an outage begins and one when it is over, however many runs notice it.
//!
//! Calls overlap, and a held one is answered long after it was sent: what the call says that was sent last counts. So the end of
//! a heartbeat that was held since before the outage does not look like its end, nor a timeout of a call from within it like another
//! one. A success that failures follow within seconds is a part of the outage.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskqueue_client::Error;
use tokio::time::{Instant, sleep};

use crate::events::{Event, EventSink};

#[derive(Clone)]
pub(crate) struct Reachability(Arc<SharedReachability>);

struct SharedReachability {
    state: Mutex<OutageState>,
    /// The time for which calls have to succeed until an outage is over.
    settle: Duration,
    events: Arc<dyn EventSink>,
}

#[derive(Debug, Default)]
struct OutageState {
    was_reached: bool,
    /// The time at which the call was sent whose outcome counts.
    latest_sent: Option<Instant>,
    outage: Option<Outage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outage {
    began: Instant,
    /// The time at which calls began to succeed; `None` while they fail.
    recovered: Option<Instant>,
}

impl OutageState {
    /// Returns whether the outcome of a call that was sent then counts.
    fn counts(&mut self, sent: Instant) -> bool {
        let counts = self.latest_sent.is_none_or(|latest| latest <= sent);
        if counts {
            self.latest_sent = Some(sent);
        }
        counts
    }

    /// Returns whether an outage begins.
    fn failed(&mut self, sent: Instant, now: Instant) -> bool {
        if !self.counts(sent) {
            return false;
        }
        let begins = self.outage.is_none();
        let outage = self.outage.get_or_insert(Outage { began: now, recovered: None });
        outage.recovered = None;
        begins
    }

    /// Returns the outage if this is the first success in it.
    fn succeeded(&mut self, sent: Instant, now: Instant) -> Option<Outage> {
        if !self.counts(sent) {
            return None;
        }
        let outage = self.outage.as_mut().filter(|outage| outage.recovered.is_none())?;
        outage.recovered = Some(now);
        Some(*outage)
    }

    /// Ends an outage, if it still is as it was; returns how long it took.
    fn settled(&mut self, seen: Outage) -> Option<Duration> {
        self.outage.take_if(|outage| *outage == seen)?;
        Some(seen.recovered?.saturating_duration_since(seen.began))
    }
}

impl Reachability {
    pub(crate) fn new(settle: Duration, events: Arc<dyn EventSink>) -> Self {
        Self(Arc::new(SharedReachability { state: Mutex::default(), settle, events }))
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.0.state.lock().outage.is_some_and(|outage| outage.recovered.is_none())
    }

    /// A call that was sent then has failed.
    pub(crate) fn call_failed(&self, error: &Error, sent: Instant) {
        let mut state = self.0.state.lock();
        if state.failed(sent, Instant::now()) {
            self.0.events.on_event(&Event::ServerUnreachable(error));
        }
    }

    /// A call that was sent then has succeeded.
    pub(crate) fn call_succeeded(&self, sent: Instant) {
        let mut state = self.0.state.lock();
        if !std::mem::replace(&mut state.was_reached, true) {
            self.0.events.on_event(&Event::Connected);
        }
        let Some(outage) = state.succeeded(sent, Instant::now()) else { return };
        drop(state);
        if self.0.settle.is_zero() {
            return self.end(outage);
        }
        let settling = self.clone();
        tokio::spawn(async move {
            sleep(settling.0.settle).await;
            settling.end(outage);
        });
    }

    /// The worker ends: what has recovered counts as over.
    pub(crate) fn finish(&self) {
        let outage = self.0.state.lock().outage;
        outage.filter(|outage| outage.recovered.is_some()).into_iter().for_each(|outage| self.end(outage));
    }

    fn end(&self, outage: Outage) {
        let mut state = self.0.state.lock();
        if let Some(took) = state.settled(outage) {
            self.0.events.on_event(&Event::ServerReachable { took });
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep as pass;

    use super::*;

    /// Records the events as words.
    #[derive(Default)]
    struct Recorded(Mutex<Vec<String>>);

    impl EventSink for Recorded {
        fn on_event(&self, event: &Event<'_>) {
            let words = match event {
                Event::ServerUnreachable(_) => "lost".to_owned(),
                Event::ServerReachable { took } => format!("back after {} s", took.as_secs()),
                _ => return,
            };
            self.0.lock().push(words);
        }
    }

    fn error() -> Error {
        Error::Transport { message: String::new(), may_have_arrived: false }
    }

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn watched() -> (Reachability, Arc<Recorded>) {
        let events = Arc::new(Recorded::default());
        (Reachability::new(seconds(5), Arc::<Recorded>::clone(&events)), events)
    }

    fn told(events: &Recorded) -> Vec<String> {
        events.0.lock().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_two_lines_with_the_time_between() {
        let (reachability, events) = watched();
        for _ in 0..10 {
            reachability.call_failed(&error(), Instant::now());
            pass(seconds(1)).await;
        }
        assert!(reachability.is_lost());
        reachability.call_succeeded(Instant::now());
        assert!(!reachability.is_lost());
        pass(seconds(6)).await;
        reachability.call_succeeded(Instant::now());
        assert_eq!(told(&events), ["lost", "back after 10 s"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_to_a_call_from_before_the_outage_does_not_end_it() {
        let (reachability, events) = watched();
        let held = Instant::now();
        pass(seconds(10)).await;
        reachability.call_failed(&error(), Instant::now());
        reachability.call_succeeded(held);
        pass(seconds(10)).await;
        assert!(reachability.is_lost());
        assert_eq!(told(&events), ["lost"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_timeout_of_a_call_from_within_an_outage_begins_no_other_one() {
        let (reachability, events) = watched();
        reachability.call_failed(&error(), Instant::now());
        let slow = Instant::now();
        pass(seconds(10)).await;
        reachability.call_succeeded(Instant::now());
        pass(seconds(10)).await;
        reachability.call_failed(&error(), slow);
        assert!(!reachability.is_lost());
        assert_eq!(told(&events), ["lost", "back after 10 s"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_that_failures_follow_is_a_part_of_the_outage() {
        let (reachability, events) = watched();
        for _ in 0..3 {
            reachability.call_failed(&error(), Instant::now());
            pass(seconds(10)).await;
            reachability.call_succeeded(Instant::now());
            pass(seconds(2)).await;
        }
        pass(seconds(10)).await;
        assert_eq!(told(&events), ["lost", "back after 34 s"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_worker_does_not_hide_the_end_of_an_outage() {
        let (reachability, events) = watched();
        reachability.call_failed(&error(), Instant::now());
        reachability.finish();
        assert_eq!(told(&events), ["lost"], "it goes on");
        reachability.call_succeeded(Instant::now());
        reachability.finish();
        assert_eq!(told(&events), ["lost", "back after 0 s"]);
    }
}
