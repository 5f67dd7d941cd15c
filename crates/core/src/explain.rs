//! Why a task is not claimed yet: the reasons, the one that weighs most first (docs/reference/http-api.md §14.16). The stores look
//! up what is so; nothing is read here.

use crate::definition::Routes;
use crate::ids::{Route, TaskId};
use crate::limits::{EXPLAINED_AHEAD, EXPLAINED_DEPENDENCIES, LEASE_SECONDS};
use crate::settings::{QueueSettings, RunningTasks};
use crate::status::Status;
use crate::task::{Lifecycle, TaskHead};
use crate::time::Timestamp;

/// The code of a task that waits for itself: of a reason, and of a warning.
pub const DEPENDENCY_CYCLE: &str = "dependency_cycle";

/// The status of a dependency that does not exist.
pub const MISSING: &str = "missing";

/// Returns the word for the status of a dependency.
pub const fn status_word(status: Option<Status>) -> &'static str {
    match status {
        Some(status) => status.as_str(),
        None => MISSING,
    }
}

/// The facts about a task at one moment.
#[derive(Clone, Debug)]
pub struct Facts {
    pub status: Status,
    /// When the lease of its run is over, if it has one.
    pub lease_expires_at: Option<Timestamp>,
    pub not_before: Option<Timestamp>,
    pub routes: Routes,
    pub now: Timestamp,
    pub settings: QueueSettings,
    /// For each of its routes.
    pub of_routes: Vec<RouteFacts>,
    /// The dependencies that have not succeeded, sorted, with the status of those that exist. More than are shown may be here.
    pub unmet: Vec<(TaskId, Option<Status>)>,
    /// True if a dependency is noted as unmet: a task with many dependents may have succeeded a moment ago, and they follow.
    pub is_blocked: bool,
}

#[derive(Clone, Debug)]
pub struct RouteFacts {
    pub route: Route,
    pub running: RunningTasks,
    /// True if a worker of the route was seen lately.
    pub has_worker: bool,
    /// How many tasks of the pending order come before it on this route, counted up to [`EXPLAINED_AHEAD`]. Not looked at if the
    /// route is full and another one is not.
    pub ahead: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// True if a claim may take it now.
    pub claimable: bool,
    pub reasons: Vec<Reason>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    NotPending {
        status: Status,
        /// When its run renewed the lease last, or began; of a running task.
        last_heard_at: Option<Timestamp>,
    },
    QueuePaused,
    QueueAtLimit {
        max_running: u64,
    },
    /// All of its routes are at their limits.
    RouteAtLimit {
        routes: Vec<Route>,
    },
    /// It waits for itself, by way of these tasks. Found by reading on behind the facts, never by [`explain`].
    DependencyCycle {
        tasks: Vec<TaskId>,
    },
    Dependencies {
        unmet: Vec<(TaskId, Option<Status>)>,
    },
    NotBefore {
        until: Timestamp,
    },
    /// No worker of any of its routes was seen lately.
    NoWorker {
        routes: Vec<Route>,
    },
    WaitingTurn {
        ahead: u64,
    },
}

impl Reason {
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotPending { .. } => "not_pending",
            Self::QueuePaused => "queue_paused",
            Self::QueueAtLimit { .. } => "queue_at_limit",
            Self::RouteAtLimit { .. } => "route_at_limit",
            Self::DependencyCycle { .. } => DEPENDENCY_CYCLE,
            Self::Dependencies { .. } => "dependencies",
            Self::NotBefore { .. } => "not_before",
            Self::NoWorker { .. } => "no_worker",
            Self::WaitingTurn { .. } => "waiting_turn",
        }
    }

    /// Returns the reason as a sentence without its full stop, as the API tells it. The command line and the dashboard add what
    /// helps.
    pub fn message(&self) -> String {
        let listed = |routes: &[Route]| routes.iter().map(Route::as_str).collect::<Vec<_>>().join(", ");
        match self {
            Self::NotPending { status, last_heard_at: None } => format!("the task is {}", status.as_str()),
            Self::NotPending { status, last_heard_at: Some(at) } => {
                format!("the task is {}; its run was last heard of at {at}", status.as_str())
            }
            Self::QueuePaused => "the queue is paused".to_owned(),
            Self::QueueAtLimit { max_running } => {
                format!("as many tasks of the queue are running as may be: {max_running}")
            }
            Self::RouteAtLimit { routes } => {
                format!("as many tasks are running as may be claimed for {}", listed(routes))
            }
            Self::DependencyCycle { tasks } if tasks.is_empty() => "it waits for itself, so for ever".to_owned(),
            Self::DependencyCycle { tasks } => {
                let ids: Vec<&str> = tasks.iter().map(TaskId::as_str).collect();
                format!("it waits for itself, so for ever: by way of {}", ids.join(", "))
            }
            Self::Dependencies { unmet } => match unmet.as_slice() {
                [] => "what it waits for has succeeded just now; it can be claimed in a moment".to_owned(),
                [(id, status)] => format!("it waits for the task {id}, which is {}", status_word(*status)),
                _ => "it waits for tasks that have not succeeded".to_owned(),
            },
            Self::NotBefore { until } => format!("it cannot be claimed before {until}"),
            Self::NoWorker { routes } => format!("no worker was seen lately for {}", listed(routes)),
            Self::WaitingTurn { ahead: 1 } => "1 task comes first".to_owned(),
            Self::WaitingTurn { ahead } if *ahead >= EXPLAINED_AHEAD => {
                format!("{EXPLAINED_AHEAD} tasks or more come first")
            }
            Self::WaitingTurn { ahead } => format!("{ahead} tasks come first"),
        }
    }
}

/// Says why a task is not claimed. A task that is not pending has no other reason.
pub fn explain(facts: Facts) -> Explanation {
    let reasons = if facts.status == Status::Pending {
        facts.reasons_of_pending()
    } else {
        let is_running = facts.status == Status::Running;
        let lease_end = facts.lease_expires_at.filter(|_| is_running);
        // A lease that was lengthened after an outage says only that nothing was heard since.
        let last_heard_at = lease_end.map(|end| end.plus_seconds(-LEASE_SECONDS).min(facts.now));
        vec![Reason::NotPending { status: facts.status, last_heard_at }]
    };
    // All other reasons prevent claims.
    let claimable = reasons.iter().all(|reason| matches!(reason, Reason::NoWorker { .. } | Reason::WaitingTurn { .. }));
    Explanation { claimable, reasons }
}

impl Facts {
    /// The facts of a task alone: as much as there is to say of one that is not pending.
    pub fn of(head: &TaskHead, now: Timestamp) -> Self {
        let Lifecycle { status, not_before, unmet, .. } = head.lifecycle;
        Self {
            status,
            lease_expires_at: head.lifecycle.run.map(|run| run.lease_expires_at),
            not_before,
            routes: head.routes.clone(),
            now,
            settings: QueueSettings::default(),
            of_routes: Vec::new(),
            unmet: Vec::new(),
            is_blocked: unmet > 0,
        }
    }

    fn reasons_of_pending(self) -> Vec<Reason> {
        let (settings, routes) = (&self.settings, &self.of_routes);
        let names = || routes.iter().map(|facts| facts.route.clone()).collect::<Vec<_>>();
        let is_full = |facts: &RouteFacts| settings.is_full(&facts.route, facts.running);
        let running = routes.iter().map(|facts| facts.running.of_queue).max().unwrap_or(0);
        let at_limit = settings.max_running.filter(|most| running >= *most);
        let routes_full = !routes.is_empty() && routes.iter().all(is_full);
        let until = self.not_before.filter(|not_before| *not_before > self.now);
        let unmet: Vec<_> = self.unmet.iter().take(EXPLAINED_DEPENDENCIES).copied().collect();
        // Nobody gets a turn on a route that is full, so it is the best one only if all are.
        let best = routes.iter().filter(|facts| routes_full || !is_full(facts));
        let ahead = best.map(|facts| facts.ahead.min(EXPLAINED_AHEAD)).min().filter(|ahead| *ahead > 0);
        let reasons = [
            settings.paused.then_some(Reason::QueuePaused),
            at_limit.map(|max_running| Reason::QueueAtLimit { max_running }),
            routes_full.then(|| Reason::RouteAtLimit { routes: names() }),
            (self.is_blocked || !unmet.is_empty()).then_some(Reason::Dependencies { unmet }),
            until.map(|until| Reason::NotBefore { until }),
            (!routes.iter().any(|facts| facts.has_worker)).then(|| Reason::NoWorker { routes: names() }),
            ahead.map(|ahead| Reason::WaitingTurn { ahead }),
        ];
        reasons.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::route;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);

    fn of_route(name: &str) -> RouteFacts {
        RouteFacts { route: route(name), running: RunningTasks::default(), has_worker: true, ahead: 0 }
    }

    fn facts() -> Facts {
        Facts {
            status: Status::Pending,
            lease_expires_at: None,
            not_before: None,
            routes: Routes::new(vec![route("cpu"), route("gpu")]).unwrap(),
            now: NOW,
            settings: QueueSettings::default(),
            of_routes: vec![of_route("cpu"), of_route("gpu")],
            unmet: Vec::new(),
            is_blocked: false,
        }
    }

    fn codes(facts: Facts) -> (bool, Vec<&'static str>) {
        let Explanation { claimable, reasons } = explain(facts);
        (claimable, reasons.iter().map(Reason::code).collect())
    }

    #[test]
    fn a_task_that_is_next_for_a_worker_has_no_reason_to_wait() {
        assert_eq!(codes(facts()), (true, vec![]));
        let past = Facts { not_before: Some(NOW), ..facts() };
        assert_eq!(codes(past), (true, vec![]), "its time has come");
    }

    #[test]
    fn every_reason_is_given_the_one_that_weighs_most_first() {
        let id = TaskId::parse("t_abcdefghijkl").unwrap();
        let mut all = Facts { not_before: Some(NOW.plus_seconds(1)), unmet: vec![(id, None)], ..facts() };
        all.settings.paused = true;
        all.settings.max_running = Some(2);
        all.settings.route_limits = [(route("cpu"), 1), (route("gpu"), 0)].into();
        for facts in &mut all.of_routes {
            facts.running = RunningTasks { of_queue: 2, of_route: 1 };
            (facts.has_worker, facts.ahead) = (false, 7);
        }
        let expected = "queue_paused queue_at_limit route_at_limit dependencies not_before no_worker waiting_turn";
        let expected: Vec<&str> = expected.split(' ').collect();
        assert_eq!(codes(all.clone()), (false, expected));
        for status in [Status::Running, Status::Succeeded, Status::Failed, Status::Cancelled] {
            assert_eq!(codes(Facts { status, ..all.clone() }), (false, vec!["not_pending"]));
        }
    }

    #[test]
    fn a_lease_that_an_outage_has_lengthened_tells_no_time_in_the_future() {
        let lease_expires_at = Some(NOW.plus_seconds(10 * LEASE_SECONDS));
        let reasons = explain(Facts { status: Status::Running, lease_expires_at, ..facts() }).reasons;
        assert_eq!(reasons, [Reason::NotPending { status: Status::Running, last_heard_at: Some(NOW) }]);
    }

    #[test]
    fn a_running_task_tells_when_its_run_was_heard_of() {
        let lease_expires_at = Some(NOW.plus_seconds(LEASE_SECONDS - 20));
        for (status, last_heard_at) in [(Status::Running, Some(NOW.plus_seconds(-20))), (Status::Failed, None)] {
            let expected = [Reason::NotPending { status, last_heard_at }];
            assert_eq!(explain(Facts { status, lease_expires_at, ..facts() }).reasons, expected);
        }
    }

    #[test]
    fn a_task_that_has_not_followed_its_dependencies_yet_is_not_claimable() {
        let behind = Facts { is_blocked: true, ..facts() };
        assert_eq!(codes(behind), (false, vec!["dependencies"]));
    }

    #[test]
    fn one_open_route_with_a_worker_is_enough_and_a_full_one_is_the_best_only_if_all_are() {
        let mut one = facts();
        one.settings.route_limits = [(route("cpu"), 0)].into();
        for (has_worker, ahead) in [(false, 900), (true, 0)] {
            one.of_routes[0].has_worker = has_worker;
            (one.of_routes[0].ahead, one.of_routes[1].ahead) = (ahead, 5);
            let expected = Explanation { claimable: true, reasons: vec![Reason::WaitingTurn { ahead: 5 }] };
            assert_eq!(explain(one.clone()), expected, "{ahead}");
        }
        one.settings.route_limits = [(route("cpu"), 0), (route("gpu"), 0)].into();
        (one.of_routes[0].ahead, one.of_routes[1].ahead) = (7, 5);
        assert_eq!(explain(one).reasons[1..], [Reason::WaitingTurn { ahead: 5 }]);
    }

    #[test]
    fn what_is_counted_and_shown_is_bounded() {
        let mut many = facts();
        many.unmet = (0..1_000).map(|n| (TaskId::parse(&format!("t_{n:0>12}")).unwrap(), None)).collect();
        many.of_routes.iter_mut().for_each(|facts| facts.ahead = 5_000);
        let Explanation { reasons, .. } = explain(many);
        assert!(matches!(&reasons[0], Reason::Dependencies { unmet } if unmet.len() == 100));
        assert_eq!(reasons[1], Reason::WaitingTurn { ahead: 1_000 });
    }
}
