//! Whether calls to the server succeed: one event when an outage begins and one when it is over, however many runs notice it. And why an idle
//! worker has nothing to do, as the server knows it: asked some seconds after the last run has ended and then once a minute, never on the way of
//! a claim. A server or a token that does not tell is no problem: then nobody knows.
//!
//! Calls overlap, and a held one is answered long after it was sent: what the call says that was sent last counts. So the end of
//! a heartbeat that was held since before the outage does not look like its end, nor a timeout of a call from within it like another
//! one. A success that failures follow within seconds is a part of the outage.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskqueue_client::{Error, Reason, Route, RouteStats, Status, TaskQuery, TaskSelection};
use tokio::time::{Instant, sleep, timeout};

use crate::handler::{Event, EventSink, IdleReason};
use crate::settings::jittered;
use crate::worker::WorkerContext;

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
        self.outage.get_or_insert(Outage { began: now, recovered: None }).recovered = None;
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

/// The number of pending tasks that are looked at for one that this worker could claim: they come whole, and may be large.
const TASKS_SEEN: u16 = 5;
/// The longest time for all questions together.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

impl IdleReason {
    /// Returns whether it only says that there was no more work, which is no news after work.
    fn is_no_more(&self) -> bool {
        matches!(self, Self::NoTask | Self::Untold)
    }

    /// Returns whether it is worth another line: numbers and times alone are not.
    fn is_news_after(&self, told: Option<&Self>) -> bool {
        let names = |routes: &[(String, u64)]| routes.iter().map(|(route, _)| route.clone()).collect::<Vec<_>>();
        match (self, told) {
            (Self::OtherRoutes(now), Some(Self::OtherRoutes(told))) => names(now) != names(told),
            (now, Some(told)) => std::mem::discriminant(now) != std::mem::discriminant(told),
            (_, None) => true,
        }
    }

    /// Returns the meaning of the first reason of an explanation for a worker; `None` if the task can be claimed.
    fn from_task_reason(reason: Option<&Reason>, pending: u64) -> Option<Self> {
        Some(match reason? {
            Reason::QueuePaused => Self::QueuePaused,
            Reason::QueueAtLimit { max_running } => Self::QueueAtLimit(*max_running),
            Reason::RouteAtLimit { .. } => Self::RouteAtLimit,
            Reason::NotBefore { until } => Self::Delayed(pending, *until),
            Reason::DependencyCycle { .. } | Reason::Dependencies { .. } => Self::Dependencies(pending),
            Reason::NotPending { .. } | Reason::NoWorker { .. } | Reason::WaitingTurn { .. } => return None,
        })
    }
}

/// Returns the reason in the figures of the routes if no task is pending for this one; else the number of those.
fn reason_of_routes(routes: &[RouteStats], own: &Route) -> Result<IdleReason, u64> {
    let (own, others): (Vec<_>, Vec<_>) = routes.iter().partition(|figures| figures.route == own.as_str());
    if let Some(own) = own.first().filter(|own| own.pending > 0) {
        return Err(own.pending);
    }
    let waiting = others.iter().filter(|figures| figures.pending > 0);
    let waiting: Vec<_> = waiting.map(|figures| (figures.route.clone(), figures.pending)).collect();
    Ok(if waiting.is_empty() { IdleReason::NoTask } else { IdleReason::OtherRoutes(waiting) })
}

impl WorkerContext {
    /// Tells why the worker is idle, after each idle time, and again when the reason has changed. Never returns.
    pub(crate) async fn tell_why_idle(self: Arc<Self>) {
        let intervals = self.settings.intervals;
        let (mut told, mut runs_ended) = (None, self.counts());
        loop {
            match self.idle_for().filter(|idle| *idle >= intervals.idle_reason) {
                None => sleep(intervals.idle_reason / 10).await,
                Some(_) => {
                    let ended = self.counts();
                    // After work everything may be told again, except that there was no more of it.
                    if std::mem::replace(&mut runs_ended, ended) != ended {
                        told = told.filter(IdleReason::is_no_more);
                    }
                    let reason = timeout(ANSWER_TIMEOUT, self.idle_reason()).await.ok().flatten();
                    // It may have found work meanwhile.
                    let is_idle = self.idle_for().is_some() && self.counts() == ended;
                    if let Some(reason) = reason.filter(|reason| is_idle && reason.is_news_after(told.as_ref())) {
                        self.events.on_event(&Event::Idle(&reason));
                        told = Some(reason);
                    }
                    sleep(jittered(intervals.idle_reason_again)).await;
                }
            }
        }
    }

    /// Returns the reason; `None` while a task seems to be on its way, or the server cannot be asked.
    async fn idle_reason(&self) -> Option<IdleReason> {
        if self.reachability.is_lost() {
            return None;
        }
        let pending = match self.client.queue_stats(&self.settings.queue).await {
            Ok(stats) => match reason_of_routes(&stats.routes, &self.settings.route) {
                Ok(reason) => return Some(reason),
                Err(pending) => pending,
            },
            // The server does not tell this worker. After other errors it may the next time.
            Err(Error::Api { status: 401 | 403 | 404, .. }) => return Some(IdleReason::Untold),
            Err(_) => return None,
        };
        self.why_held(pending).await
    }

    /// Returns the reason for which a pending task of the route is not claimed.
    async fn why_held(&self, pending: u64) -> Option<IdleReason> {
        // The name of a route has no character that a text of the filter language would have to escape.
        let of_route = format!("\"{}\" in routes", self.settings.route);
        let selection = TaskSelection::all().status(Status::Pending).filter(of_route);
        let page = self.client.page(&self.settings.queue, &TaskQuery::of(selection).limit(TASKS_SEEN)).await.ok()?;
        let Some(task) = page.items.iter().min_by_key(|task| task.not_before) else {
            return Some(IdleReason::Held(pending));
        };
        let explanation = self.client.explain_task(&self.settings.queue, task.id).await.ok()?;
        IdleReason::from_task_reason(explanation.reasons.first()?.reason.as_ref(), pending)
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_client::Timestamp;
    use tokio::time::sleep as pass;

    use super::IdleReason::{
        Delayed, Dependencies, NoTask, OtherRoutes, QueueAtLimit, QueuePaused, RouteAtLimit, Untold,
    };
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

    fn figures(route: &str, pending: u64) -> RouteStats {
        let route = route.to_owned();
        RouteStats { route, pending, running: 0, oldest_pending_seconds: None, workers_idle: 0, workers_busy: 0 }
    }

    #[test]
    fn tasks_of_other_routes_are_named_if_there_is_none_of_the_own() {
        let own = Route::parse("default").unwrap();
        assert_eq!(reason_of_routes(&[], &own), Ok(NoTask));
        assert_eq!(reason_of_routes(&[figures("default", 0), figures("idle", 0)], &own), Ok(NoTask));
        let others = [figures("cpu", 2), figures("default", 0), figures("gpu", 5)];
        assert_eq!(reason_of_routes(&others, &own), Ok(OtherRoutes(vec![("cpu".into(), 2), ("gpu".into(), 5)])));
        assert_eq!(reason_of_routes(&[figures("default", 3), figures("gpu", 5)], &own), Err(3));
    }

    #[test]
    fn the_first_reason_of_a_task_is_that_of_the_worker() {
        let until = Timestamp::from_micros(1);
        for (reason, expected) in [
            (Reason::QueuePaused, Some(QueuePaused)),
            (Reason::QueueAtLimit { max_running: 8 }, Some(QueueAtLimit(8))),
            (Reason::RouteAtLimit { routes: vec![] }, Some(RouteAtLimit)),
            (Reason::NotBefore { until }, Some(Delayed(2, until))),
            (Reason::Dependencies { unmet: vec![] }, Some(Dependencies(2))),
            (Reason::WaitingTurn { ahead: 1 }, None),
            (Reason::NotPending { status: Status::Running, last_heard_at: None }, None),
        ] {
            assert_eq!(IdleReason::from_task_reason(Some(&reason), 2), expected, "{reason:?}");
        }
        assert_eq!(IdleReason::from_task_reason(None, 2), None, "one that only newer servers know");
    }

    #[test]
    fn only_another_reason_is_news() {
        let routes = |count| OtherRoutes(vec![("gpu".to_owned(), count)]);
        let other = OtherRoutes(vec![("cpu".to_owned(), 1)]);
        assert!(NoTask.is_news_after(None) && !NoTask.is_news_after(Some(&NoTask)));
        assert!(!routes(5).is_news_after(Some(&routes(6))) && other.is_news_after(Some(&routes(1))));
        assert!(QueuePaused.is_news_after(Some(&NoTask)) && NoTask.is_news_after(Some(&Untold)));
        assert!(NoTask.is_no_more() && Untold.is_no_more() && !QueuePaused.is_no_more());
        let delayed = |micros| Delayed(1, Timestamp::from_micros(micros));
        assert!(!delayed(1).is_news_after(Some(&delayed(2))));
    }
}
