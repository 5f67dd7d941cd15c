//! Why an idle worker has nothing to do, as the server knows it. Asked some seconds after the last run has ended and then once a
//! minute, never on the way of a claim. A server or a token that does not tell is no problem: then nobody knows.

use std::sync::Arc;
use std::time::Duration;

use taskqueue_client::{Error, Reason, Route, RouteStats, Status, TaskQuery, TaskSelection};
use tokio::time::{sleep, timeout};

use crate::context::WorkerContext;
use crate::events::{Event, IdleReason};
use crate::settings::jittered;

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
    match own.first().map_or(0, |own| own.pending) {
        0 => {}
        pending => return Err(pending),
    }
    let waiting: Vec<(String, u64)> = others
        .into_iter()
        .filter(|figures| figures.pending > 0)
        .map(|figures| (figures.route.clone(), figures.pending))
        .collect();
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
        let first = explanation.reasons.first()?;
        IdleReason::from_task_reason(first.reason.as_ref(), pending)
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_client::Timestamp;

    use super::IdleReason::{
        Delayed, Dependencies, NoTask, OtherRoutes, QueueAtLimit, QueuePaused, RouteAtLimit, Untold,
    };
    use super::*;

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
