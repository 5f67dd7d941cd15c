//! Why a task is pending, as far as that is known now: whether somebody is there for its routes.

use taskqueue_core::stats::{QueueFigures, pending_since};
use taskqueue_core::task::{Status, Task};
use taskqueue_core::time::Timestamp;

use crate::show::{Moment, count};

/// Routes that are named.
const ROUTES: usize = 5;

/// Why a task waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) since: Moment,
    pub(super) reason: String,
    /// What starts a worker, if there is none.
    pub(super) command: Option<String>,
    pub(super) next_attempt: i64,
    pub(super) max_attempts: i64,
}

impl Waiting {
    /// Nothing if the task is not pending.
    pub(super) fn of(task: &Task, figures: &QueueFigures, now: Timestamp) -> Option<Self> {
        if task.lifecycle.status != Status::Pending {
            return None;
        }
        let routes = &task.definition.routes;
        let (mut idle, mut busy) = (0, 0);
        for (_, figures) in figures.routes().filter(|(route, _)| routes.contains(route)) {
            idle += figures.workers_idle;
            busy += figures.workers_busy;
        }
        let names: Vec<&str> = routes.iter().take(ROUTES).collect();
        let first = names.first().copied().unwrap_or_default();
        let (named, theirs) = (names.join(", "), if routes.count() == 1 { "its route" } else { "its routes" });
        let reason = match (idle, busy) {
            (0, 0) => format!("No worker has reported for {theirs} ({named}) in the last five minutes."),
            (0, 1) => format!("The worker for {theirs} is busy."),
            (0, _) => format!("All {} for {theirs} are busy.", count(busy, "worker")),
            (1, _) => format!("A worker for {theirs} is idle: it should take the task in a moment."),
            (_, _) => format!(
                "{} for {theirs} are idle: one of them should take the task in a moment.",
                count(idle, "worker")
            ),
        };
        let is_alone = idle + busy == 0;
        let command = format!("taskqueue loop --queue {} --route {first} -- COMMAND", task.queue);
        Some(Self {
            since: Moment::new(pending_since(&task.lifecycle), now),
            reason,
            command: is_alone.then_some(command),
            next_attempt: task.lifecycle.attempt.saturating_add(1),
            max_attempts: task.definition.max_attempts,
        })
    }

    /// Whether nobody is there who could take the task.
    pub(super) fn is_starving(&self) -> bool {
        self.command.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskqueue_core::definition::{Definition, Routes};
    use taskqueue_core::ids::{QueueName, Route, TaskId};
    use taskqueue_core::observation::WorkerStatus;
    use taskqueue_core::task::{Lifecycle, Outcome};

    fn task(status: Status) -> Task {
        let routes = Routes::new(vec![Route::parse("a").unwrap(), Route::parse("b").unwrap()]).unwrap();
        let now = Timestamp::from_micros(0);
        Task {
            queue: QueueName::parse("q").unwrap(),
            id: TaskId::parse("t_abcdefghijkl").unwrap(),
            definition: Definition { routes, ..Definition::default() },
            lifecycle: Lifecycle { status, ..Lifecycle::created(now, 1) },
            outcome: Outcome::empty(),
        }
    }

    #[test]
    fn the_reason_follows_from_the_workers_of_its_routes() {
        use WorkerStatus::{Busy, Idle};
        type Workers = &'static [(&'static str, WorkerStatus, u64)];
        let cases: [(Workers, &str, bool); 5] = [
            (&[], "No worker has reported for its routes (a, b)", true),
            (&[("c", Idle, 9)], "No worker has reported", true),
            (&[("a", Busy, 1)], "The worker for its routes is busy", false),
            (&[("a", Busy, 1), ("b", Busy, 3), ("c", Idle, 1)], "All 4 workers for its routes are busy", false),
            (&[("a", Busy, 1), ("b", Idle, 1)], "A worker for its routes is idle", false),
        ];
        for (workers, reason, is_starving) in cases {
            let mut figures = QueueFigures::default();
            workers.iter().for_each(|(route, status, count)| figures.add_workers(route, *status, *count));
            let waiting = Waiting::of(&task(Status::Pending), &figures, Timestamp::from_micros(0)).unwrap();
            assert!(waiting.reason.starts_with(reason), "{waiting:?}");
            assert_eq!(waiting.is_starving(), is_starving);
        }
    }

    #[test]
    fn a_task_that_does_not_wait_has_no_reason() {
        for status in [Status::Running, Status::Succeeded, Status::Failed, Status::Cancelled] {
            assert_eq!(Waiting::of(&task(status), &QueueFigures::default(), Timestamp::from_micros(0)), None);
        }
    }
}
