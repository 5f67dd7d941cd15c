//! The text of a notification between servers: the id of the sender, then lines. `waits`: claims wait at the sender.
//! `watches`: heartbeats are held there. `look`: poll all routes and runs. `- queue`: the queue was deleted. `! run run`:
//! these runs were ended by others than their workers. `queue routes id id`: these tasks became claimable. Names hold no
//! blanks. Lines that cannot be parsed are ignored, so that a newer server can say more; nothing depends on a message.

use std::collections::BTreeMap;

use taskqueue_core::definition::Routes;
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId};
use taskqueue_core::task::RunEnd;
use taskqueue_store::claimable::Claimable;

/// PostgreSQL takes less than 8,000 bytes.
const MAX_BYTES: usize = 7_900;

const WAITS: &str = "waits";
const WATCHES: &str = "watches";
const POLL_ALL: &str = "look";
const DELETED: &str = "-";
const ENDED: &str = "!";

/// What of both the sender has, or the receivers have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) claims: bool,
    pub(crate) heartbeats: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) waiting: Waiting,
    pub(crate) poll_all: bool,
    pub(crate) ended_runs: Vec<RunId>,
    pub(crate) deleted_queues: Vec<QueueName>,
    pub(crate) tasks: BTreeMap<(QueueName, Routes), Vec<TaskId>>,
    /// Length of the lines, without the id of the sender.
    bytes: usize,
}

impl Message {
    /// Announces what waits at the sender.
    pub(crate) fn announcement(waiting: Waiting) -> Self {
        Self { waiting, ..Self::default() }
    }

    /// Adds what was committed, as far as something at the receivers waits for it. If it does not fit, they poll instead.
    pub(crate) fn add(&mut self, claimable: &Claimable, receivers: Waiting) {
        self.poll_all |= claimable.must_poll();
        if receivers.heartbeats {
            self.add_ended_runs(claimable);
        }
        if receivers.claims {
            self.add_tasks(claimable);
        }
        if self.bytes > MAX_BYTES {
            *self = Self { waiting: self.waiting, poll_all: true, ..Self::default() };
        }
    }

    /// A worker knows of what it reported itself; the poll is soon enough for whoever else holds a heartbeat of its run. So a
    /// claim and a completion need no notification.
    fn add_ended_runs(&mut self, claimable: &Claimable) {
        let by_others = |end| matches!(end, RunEnd::Cancel | RunEnd::HeartbeatExpired | RunEnd::Timeout);
        for run in claimable.ended_runs().iter().filter(|run| by_others(run.end)) {
            self.bytes += run.run_id.as_str().len() + 1 + if self.ended_runs.is_empty() { 2 } else { 0 };
            self.ended_runs.push(run.run_id);
        }
    }

    fn add_tasks(&mut self, claimable: &Claimable) {
        self.deleted_queues.extend(claimable.deleted_queues().iter().cloned());
        self.bytes += claimable.deleted_queues().iter().map(|queue| queue.as_str().len() + 3).sum::<usize>();
        for hint in claimable.hints() {
            let Some(task) = hint.task else { continue };
            let (queue, routes) = (hint.queue.as_str().len(), hint.routes.as_json().len());
            let tasks = self.tasks.entry((hint.queue.clone(), hint.routes.clone())).or_default();
            self.bytes += if tasks.is_empty() { queue + routes + 2 } else { 0 } + task.as_str().len() + 1;
            tasks.push(task);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn to_text(&self, sender: &str) -> String {
        let mut lines = vec![sender.to_owned()];
        lines.extend(self.waiting.claims.then(|| WAITS.to_owned()));
        lines.extend(self.waiting.heartbeats.then(|| WATCHES.to_owned()));
        lines.extend(self.poll_all.then(|| POLL_ALL.to_owned()));
        lines.extend(self.deleted_queues.iter().map(|queue| format!("{DELETED} {queue}")));
        if !self.ended_runs.is_empty() {
            let run_ids: Vec<&str> = self.ended_runs.iter().map(RunId::as_str).collect();
            lines.push(format!("{ENDED} {}", run_ids.join(" ")));
        }
        for ((queue, routes), tasks) in &self.tasks {
            let tasks: Vec<&str> = tasks.iter().map(TaskId::as_str).collect();
            lines.push(format!("{queue} {} {}", routes.as_json(), tasks.join(" ")));
        }
        lines.join("\n")
    }

    /// The sender and the message.
    pub(crate) fn parse(text: &str) -> (&str, Self) {
        let mut lines = text.lines();
        let sender = lines.next().unwrap_or_default();
        let mut message = Self::default();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                [WAITS] => message.waiting.claims = true,
                [WATCHES] => message.waiting.heartbeats = true,
                [POLL_ALL] => message.poll_all = true,
                [DELETED, queue] => message.deleted_queues.extend(QueueName::parse(queue)),
                [ENDED, runs @ ..] => message.ended_runs.extend(runs.iter().filter_map(|run| RunId::parse(run))),
                [queue, routes, tasks @ ..] => {
                    let (Some(queue), Some(routes)) = (QueueName::parse(queue), parse_routes(routes)) else { continue };
                    let tasks = tasks.iter().filter_map(|task| TaskId::parse(task));
                    message.tasks.entry((queue, routes)).or_default().extend(tasks);
                }
                _ => {}
            }
        }
        (sender, message)
    }
}

fn parse_routes(json: &str) -> Option<Routes> {
    let inner = json.strip_prefix("[\"")?.strip_suffix("\"]")?;
    let routes: Option<Vec<Route>> = inner.split("\",\"").map(Route::parse).collect();
    Routes::new(routes?)
}

#[cfg(test)]
mod tests {
    use taskqueue_core::task::FinishedRun;
    use taskqueue_store::conformance::commands::{queue, routes, run_id, task_id};
    use taskqueue_store::waiting::Hint;

    use super::*;

    const BOTH: Waiting = Waiting { claims: true, heartbeats: true };

    fn ended(n: usize, end: RunEnd) -> FinishedRun {
        FinishedRun { run_id: run_id(n), end }
    }

    fn claimable(tasks: usize) -> Claimable {
        let mut claimable = Claimable::new(true);
        for n in 0..tasks {
            let routes = routes(if n % 2 == 0 { &["a"] } else { &["a", "b.c-d_e"] });
            claimable.hint(Hint { queue: queue("q"), routes, task: Some(task_id(n)) });
        }
        claimable
    }

    #[test]
    fn what_is_sent_is_what_is_received() {
        let mut message = Message::announcement(BOTH);
        let mut committed = claimable(5);
        committed.queue_deleted(&queue("old"));
        [1, 2].into_iter().for_each(|n| committed.run_ended(ended(n, RunEnd::Cancel)));
        message.add(&committed, BOTH);
        let text = message.to_text("me");
        let (sender, received) = Message::parse(&text);
        assert_eq!((sender, Message { bytes: message.bytes, ..received }), ("me", message));
        assert_eq!(text.lines().count(), 7, "{text}");
    }

    #[test]
    fn only_what_somebody_waits_for_is_sent() {
        let mut committed = claimable(1);
        RunEnd::ALL.into_iter().enumerate().for_each(|(n, end)| committed.run_ended(ended(n, end)));
        let sent = |claims, heartbeats| {
            let mut message = Message::default();
            message.add(&committed, Waiting { claims, heartbeats });
            (message.tasks.len(), message.ended_runs)
        };
        let by_others = vec![run_id(3), run_id(4), run_id(5)];
        assert_eq!(sent(true, false), (1, vec![]));
        assert_eq!(sent(false, true), (0, by_others.clone()), "a worker needs no notice of its own reports");
        assert_eq!(sent(true, true), (1, by_others));
    }

    #[test]
    fn a_message_that_would_be_too_long_requests_a_poll_of_all_routes() {
        let mut message = Message::default();
        message.add(&claimable(400), BOTH);
        assert!(!message.poll_all && message.to_text("0123456789abcdef").len() < 8_000);
        message.add(&claimable(400), BOTH);
        assert_eq!(message.to_text("me"), "me\nlook");
        let (mut message, mut committed) = (Message::default(), Claimable::new(true));
        (0..520).for_each(|n| committed.run_ended(ended(n, RunEnd::Cancel)));
        message.add(&committed, BOTH);
        assert!(!message.poll_all && message.to_text("0123456789abcdef").len() < 8_000);
        message.add(&committed, BOTH);
        assert_eq!(message.to_text("me"), "me\nlook");
    }

    #[test]
    fn lines_that_cannot_be_parsed_are_ignored() {
        for text in [
            "",
            "\n",
            "x\nq",
            "x\nq [\"\"] t_000000000001",
            "x\n- -",
            "x\nq [a] t",
            "\u{1F600}\n\u{1F600} x y",
            "x\nwaits now",
            "x\n! r_1 t_000000000001",
        ] {
            assert!(Message::parse(text).1.is_empty(), "{text:?}");
        }
    }
}
