//! The reasons why a task is not claimed, in sentences for people: what is so, and what to do about it.

use std::collections::HashMap;

use taskqueue_client::{ExplainedReason, Explanation, QueueName, Reason, Route, Status, TaskId, Timestamp};
use taskqueue_core::limits::EXPLAINED_DEPENDENCIES;
use taskqueue_core::words;

/// The facts about the task, and about some that it waits for, besides the reasons.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// As far as they have one.
    pub(crate) names: HashMap<TaskId, String>,
    /// The reason why the task was cancelled, if something that it waits for was the reason.
    pub(crate) cancelled_because: Option<String>,
    /// The place where it runs, if it is running and its worker said so.
    pub(crate) runs_on: Option<String>,
}

impl Known {
    /// So many of the tasks that are waited for are shown.
    pub(crate) const SHOWN: usize = 10;

    /// `t_... (prepare)`
    fn of(&self, id: TaskId) -> String {
        self.names.get(&id).map_or_else(|| id.to_string(), |name| format!("{id} ({name})"))
    }

    /// Returns who runs the task, and when that was last heard of.
    fn heard_of(&self, at: Timestamp, now: Timestamp) -> String {
        let place = self.runs_on.as_ref().map(|place| format!(", on {place},")).unwrap_or_default();
        format!(" Its worker{place} was last heard of {}.", words::age(at, now))
    }
}

/// What the sentences about a task are made of.
pub(crate) struct Speaker<'a> {
    pub(crate) id: TaskId,
    pub(crate) queue: &'a QueueName,
    pub(crate) known: &'a Known,
    /// Makes a command for the same server and queue of its words. The queue is left out of those that begin with `queue`, where it is an
    /// argument.
    pub(crate) command: &'a dyn Fn(&str) -> String,
    pub(crate) now: Timestamp,
}

impl Speaker<'_> {
    /// Returns a line about the task, and one for each reason.
    pub(crate) fn sentences(&self, Explanation { claimable, reasons }: &Explanation) -> Vec<String> {
        let task = self.known.of(self.id);
        if let [ExplainedReason { reason: Some(Reason::NotPending { status, last_heard_at }), .. }] = reasons.as_slice()
        {
            let heard = last_heard_at.map(|at| self.known.heard_of(at, self.now)).unwrap_or_default();
            return vec![format!("{task} {}.{heard}", self.ended(*status))];
        }
        let first = match (claimable, reasons.is_empty()) {
            (true, true) => format!("{task} can be claimed: the next worker that asks for a task gets it."),
            (true, false) => format!("{task} can be claimed, but has not been yet:"),
            (false, _) => format!("{task} cannot be claimed now:"),
        };
        let lines = reasons.iter().map(|reason| format!("- {}.", self.sentence(reason)));
        [first].into_iter().chain(lines).collect()
    }

    /// Says what became of a task that is not pending.
    fn ended(&self, status: Status) -> String {
        let (id, command) = (self.id, self.command);
        match status {
            Status::Pending => "is pending".to_owned(),
            Status::Running => format!("is running; {} {id} --follow shows what it prints", command("task logs")),
            Status::Succeeded => {
                format!("has succeeded; {} {id} submits it again as a new task", command("task rerun"))
            }
            Status::Failed => format!("has failed for good; {} {id} tries it again", command("task requeue")),
            Status::Cancelled => {
                let requeue = format!("{} {id} makes it pending again", command("task requeue"));
                match &self.known.cancelled_because {
                    Some(why) => {
                        format!("was cancelled because {why}; once that is pending or has succeeded, {requeue}")
                    }
                    None => format!("was cancelled; {requeue}"),
                }
            }
        }
    }

    /// Says what is so, in the words of the API where nothing more is known here, and what helps.
    fn sentence(&self, explained: &ExplainedReason) -> String {
        let (id, queue, command) = (self.id, self.queue, self.command);
        // A newer server has reasons that this program does not know.
        let Some(reason) = &explained.reason else { return explained.message.clone() };
        let limit = || format!("it has to wait until one ends, or {} {queue}", command("queue limit"));
        let update = command("task update");
        let advice = match reason {
            Reason::NotPending { status, .. } => return format!("it {}", self.ended(*status)),
            Reason::DependencyCycle { tasks } => return self.cycle(tasks),
            Reason::Dependencies { unmet } if unmet.is_empty() => return reason.message(),
            Reason::Dependencies { unmet } => return self.dependencies(unmet),
            // One that stopped a moment ago is gone at once, so nothing is said of how long there was none.
            Reason::NoWorker { routes } => {
                let loop_command = format!("{} --route {}", command("loop"), first(routes));
                return format!("no worker for {} is there; {loop_command} -- COMMAND starts one", listed(routes));
            }
            Reason::NotBefore { until } => {
                let when = words::age(*until, self.now);
                return format!("{} ({when}); {update} {id} --no-delay lets it be claimed now", reason.message());
            }
            Reason::QueuePaused => format!("{} {queue} ends that", command("queue resume")),
            // No end of another task helps.
            Reason::QueueAtLimit { max_running: 0 } => {
                let raise = format!("{} {queue} --max-running COUNT raises it", command("queue limit"));
                return format!("the limit of queue {queue} lets no task run; {raise}");
            }
            Reason::QueueAtLimit { .. } => format!("{} --max-running COUNT raises the limit", limit()),
            Reason::RouteAtLimit { routes } => format!("{} --route {}=COUNT raises the limit", limit(), first(routes)),
            Reason::WaitingTurn { .. } => {
                format!("{update} {id} --priority NUMBER with a higher number lets it go before others")
            }
        };
        format!("{}; {advice}", reason.message())
    }

    fn cycle(&self, tasks: &[TaskId]) -> String {
        let ids: Vec<&str> = tasks.iter().take(Known::SHOWN).map(TaskId::as_str).collect();
        let by_way_of = match tasks.len().saturating_sub(ids.len()) {
            _ if ids.is_empty() => String::new(),
            0 => format!(" by way of {}", ids.join(", ")),
            more => format!(" by way of {}, and {more} more", ids.join(", ")),
        };
        let update = (self.command)("task update");
        format!("it waits for itself{by_way_of}, so for ever; {update} {} --no-after lets it wait for nothing", self.id)
    }

    /// Which tasks are waited for, those first that need somebody to do something.
    fn dependencies(&self, unmet: &[(TaskId, Option<Status>)]) -> String {
        let mut sorted: Vec<&(TaskId, Option<Status>)> = unmet.iter().collect();
        sorted.sort_by_key(|(_, status)| matches!(status, Some(Status::Pending | Status::Running)));
        let shown = sorted.iter().take(Known::SHOWN).map(|(id, status)| {
            let state = match status {
                None => "does not exist",
                Some(Status::Pending) => "is pending",
                Some(Status::Running) => "is running",
                // It may have succeeded since.
                Some(Status::Succeeded) => "has succeeded",
                Some(Status::Failed) => "has failed",
                Some(Status::Cancelled) => "was cancelled",
            };
            format!("{} {state}", self.known.of(*id))
        });
        let mut listed = shown.collect::<Vec<_>>().join(", ");
        let more = unmet.len().saturating_sub(Known::SHOWN);
        if more > 0 {
            listed.push_str(&format!(", and {more} more"));
        }
        let count = match unmet.len() {
            1 => "a task that has".to_owned(),
            EXPLAINED_DEPENDENCIES.. => format!("{EXPLAINED_DEPENDENCIES} tasks or more that have"),
            count => format!("{count} tasks that have"),
        };
        format!("it waits for {count} not succeeded: {listed}{}", self.advice(&sorted))
    }

    /// Says what helps, if waiting does not.
    fn advice(&self, sorted: &[&(TaskId, Option<Status>)]) -> String {
        let (command, id) = (self.command, self.id);
        match sorted.first() {
            Some((other, Some(Status::Failed | Status::Cancelled))) => {
                format!("; {} {other} tries that one again", command("task requeue"))
            }
            Some((other, None)) => format!(
                "; {} --id {other} creates that one, {} {id} --no-after lets it wait for nothing",
                command("task submit"),
                command("task update")
            ),
            Some((other, Some(Status::Pending))) => {
                format!("; {} {other} says why that one waits", command("task explain"))
            }
            _ => String::new(),
        }
    }
}

/// The route to name in a command.
fn first(routes: &[Route]) -> &str {
    routes.first().map_or("ROUTE", Route::as_str)
}

/// `route gpu`, `routes cpu, gpu`.
fn listed(routes: &[Route]) -> String {
    let noun = if routes.len() == 1 { "route" } else { "routes" };
    format!("{noun} {}", routes.iter().map(Route::as_str).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::tests::TEST_TIME;

    fn id(n: u64) -> TaskId {
        TaskId::parse(&format!("t_{n:0>12}")).unwrap()
    }

    fn said(reasons: Vec<Reason>) -> Vec<String> {
        said_with(reasons, &|words| format!("taskqueue {words}"))
    }

    fn said_with(reasons: Vec<Reason>, command: &dyn Fn(&str) -> String) -> Vec<String> {
        let claimable =
            !reasons.iter().any(|reason| !matches!(reason, Reason::NoWorker { .. } | Reason::WaitingTurn { .. }));
        let explained = reasons.into_iter().map(|reason| ExplainedReason {
            code: reason.code().to_owned(),
            message: String::new(),
            reason: Some(reason),
        });
        let explanation = Explanation { claimable, reasons: explained.collect() };
        let names = [(id(1), "report".to_owned()), (id(3), "prepare".to_owned())].into();
        let known = Known { names, ..Known::default() };
        let queue = QueueName::parse("q").unwrap();
        Speaker { id: id(1), queue: &queue, known: &known, command, now: TEST_TIME }.sentences(&explanation)
    }

    fn gpu() -> Vec<Route> {
        vec![Route::parse("gpu").unwrap()]
    }

    #[test]
    fn a_task_that_nothing_holds_back_says_so() {
        let expected = ["t_000000000001 (report) can be claimed: the next worker that asks for a task gets it."];
        assert_eq!(said(vec![]), expected);
        let turn = said(vec![Reason::NoWorker { routes: gpu() }, Reason::WaitingTurn { ahead: 1 }]);
        assert_eq!(turn[0], "t_000000000001 (report) can be claimed, but has not been yet:");
        assert!(turn[1].contains("taskqueue loop --route gpu -- COMMAND"), "{turn:?}");
        assert!(turn[2].starts_with("- 1 task comes first; "), "{turn:?}");
    }

    #[test]
    fn every_reason_is_a_sentence_that_says_what_helps() {
        let cases = [
            (Reason::QueuePaused, "the queue is paused", "taskqueue queue resume q"),
            (Reason::QueueAtLimit { max_running: 8 }, "running as may be: 8", "queue limit q --max-running COUNT"),
            (Reason::QueueAtLimit { max_running: 0 }, "lets no task run", "queue limit q --max-running COUNT"),
            (Reason::RouteAtLimit { routes: gpu() }, "as may be claimed for gpu", "queue limit q --route gpu=COUNT"),
            (
                Reason::NotBefore { until: TEST_TIME.plus_seconds(600) },
                "claimed before 2027-01-15T08:10:00.000000Z (in 10m)",
                "task update t_000000000001 --no-delay",
            ),
            (Reason::WaitingTurn { ahead: 1000 }, "1000 tasks or more come first", "--priority NUMBER"),
        ];
        for (reason, what, advice) in cases {
            let lines = said(vec![reason]);
            assert!(lines[1].contains(what) && lines[1].contains(advice), "{lines:?}");
            assert!(lines[1].starts_with("- ") && lines[1].ends_with('.'), "{lines:?}");
        }
    }

    #[test]
    fn every_command_is_for_the_same_server_and_queue() {
        let reasons = vec![
            Reason::QueuePaused,
            Reason::QueueAtLimit { max_running: 0 },
            Reason::QueueAtLimit { max_running: 8 },
            Reason::RouteAtLimit { routes: gpu() },
            Reason::DependencyCycle { tasks: vec![id(2)] },
            Reason::Dependencies { unmet: vec![(id(3), Some(Status::Failed))] },
            Reason::NotBefore { until: TEST_TIME.plus_seconds(600) },
            Reason::NoWorker { routes: gpu() },
            Reason::WaitingTurn { ahead: 1 },
        ];
        for line in &said_with(reasons, &|words| format!("<{words}>"))[1..] {
            assert!(line.contains('<') && !line.contains("taskqueue "), "{line}");
        }
    }

    #[test]
    fn what_is_waited_for_is_named_with_its_state_and_what_is_stuck_comes_first() {
        let unmet = vec![(id(2), Some(Status::Running)), (id(3), Some(Status::Failed))];
        let expected = "- it waits for 2 tasks that have not succeeded: t_000000000003 (prepare) has failed, \
                        t_000000000002 is running; taskqueue task requeue t_000000000003 tries that one again.";
        assert_eq!(said(vec![Reason::Dependencies { unmet }])[1], expected);
        let missing = said(vec![Reason::Dependencies { unmet: vec![(id(9), None)] }]);
        assert!(missing[1].contains("a task that has not succeeded: t_000000000009 does not exist"), "{missing:?}");
        assert!(missing[1].contains("task update t_000000000001 --no-after"), "{missing:?}");
        let many = (0..100).map(|n| (id(n), Some(Status::Pending))).collect();
        let many = said(vec![Reason::Dependencies { unmet: many }]);
        assert!(many[1].contains("100 tasks or more") && many[1].contains(", and 90 more; "), "{many:?}");
    }

    #[test]
    fn a_task_that_waits_for_itself_says_by_way_of_which_others() {
        let line = |tasks: Vec<TaskId>| said(vec![Reason::DependencyCycle { tasks }]).swap_remove(1);
        let update = "so for ever; taskqueue task update t_000000000001 --no-after lets it wait for nothing.";
        assert_eq!(line(vec![]), format!("- it waits for itself, {update}"));
        let two = format!("- it waits for itself by way of t_000000000002, t_000000000003, {update}");
        assert_eq!(line(vec![id(2), id(3)]), two);
        let many = line((2..40).map(id).collect());
        assert!(many.contains(", and 28 more, so for ever"), "{many}");
    }

    #[test]
    fn a_task_that_is_not_pending_says_what_it_is_instead() {
        let cases = [
            (Status::Running, "is running; taskqueue task logs"),
            (Status::Succeeded, "has succeeded; taskqueue task rerun"),
            (Status::Failed, "has failed for good; taskqueue task requeue"),
            (Status::Cancelled, "was cancelled; taskqueue task requeue"),
        ];
        for (status, expected) in cases {
            let lines = said(vec![Reason::NotPending { status, last_heard_at: None }]);
            assert!(lines.len() == 1 && lines[0].contains(expected), "{lines:?}");
        }
    }

    #[test]
    fn a_running_task_says_who_runs_it_and_when_that_was_heard_of() {
        let at = TEST_TIME.plus_seconds(-20);
        assert_eq!(Known::default().heard_of(at, TEST_TIME), " Its worker was last heard of 20s ago.");
        let known = Known { runs_on: Some("gpu-3, slot 2, pid 9".to_owned()), ..Known::default() };
        let expected = " Its worker, on gpu-3, slot 2, pid 9, was last heard of 20s ago.";
        assert_eq!(known.heard_of(at, TEST_TIME), expected);
        let reason = Reason::NotPending { status: Status::Running, last_heard_at: Some(at) };
        let expected = " --follow shows what it prints. Its worker was last heard of 20s ago.";
        assert!(said(vec![reason])[0].ends_with(expected));
    }

    #[test]
    fn a_reason_of_a_newer_server_is_shown_in_its_own_words() {
        let reason = ExplainedReason { code: "moon".to_owned(), message: "the moon is full".to_owned(), reason: None };
        let explanation = Explanation { claimable: false, reasons: vec![reason] };
        let queue = QueueName::parse("q").unwrap();
        let known = Known::default();
        let speaker = Speaker { id: id(1), queue: &queue, known: &known, command: &str::to_owned, now: TEST_TIME };
        let lines = speaker.sentences(&explanation);
        assert_eq!(lines, ["t_000000000001 cannot be claimed now:", "- the moon is full."]);
    }
}
