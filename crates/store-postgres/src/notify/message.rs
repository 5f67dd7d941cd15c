//! The text of a notification between servers: the id of the sender, then lines. `waits`: the sender has waiters. `look`:
//! poll all routes. `- queue`: the queue was deleted. `queue routes id id`: these tasks became claimable. Names hold no
//! blanks. Lines that cannot be parsed are ignored: nothing depends on a message.

use std::collections::BTreeMap;

use taskqueue_core::definition::Routes;
use taskqueue_core::ids::{QueueName, Route, TaskId};
use taskqueue_store::claimable::Claimable;

/// PostgreSQL takes less than 8,000 bytes.
const MAX_BYTES: usize = 7_900;

const WAITS: &str = "waits";
const POLL_ALL: &str = "look";
const DELETED: &str = "-";

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) has_waiters: bool,
    pub(crate) poll_all: bool,
    pub(crate) deleted_queues: Vec<QueueName>,
    pub(crate) tasks: BTreeMap<(QueueName, Routes), Vec<TaskId>>,
    /// Length of the lines, without the id of the sender.
    bytes: usize,
}

impl Message {
    /// Announces that the sender has waiters.
    pub(crate) fn announcement() -> Self {
        Self { has_waiters: true, ..Self::default() }
    }

    /// Adds what was committed. If it does not fit, the receivers poll all routes instead.
    pub(crate) fn add(&mut self, claimable: &Claimable) {
        self.poll_all |= claimable.must_poll_all_routes();
        self.deleted_queues.extend(claimable.deleted_queues().iter().cloned());
        self.bytes += claimable.deleted_queues().iter().map(|queue| queue.as_str().len() + 3).sum::<usize>();
        for hint in claimable.hints() {
            let Some(task) = hint.task else { continue };
            let (queue, routes) = (hint.queue.as_str().len(), hint.routes.as_json().len());
            let tasks = self.tasks.entry((hint.queue.clone(), hint.routes.clone())).or_default();
            self.bytes += if tasks.is_empty() { queue + routes + 2 } else { 0 } + task.as_str().len() + 1;
            tasks.push(task);
        }
        if self.bytes > MAX_BYTES {
            *self = Self { has_waiters: self.has_waiters, poll_all: true, ..Self::default() };
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn to_text(&self, sender: &str) -> String {
        let mut lines = vec![sender.to_owned()];
        lines.extend(self.has_waiters.then(|| WAITS.to_owned()));
        lines.extend(self.poll_all.then(|| POLL_ALL.to_owned()));
        lines.extend(self.deleted_queues.iter().map(|queue| format!("{DELETED} {queue}")));
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
                [WAITS] => message.has_waiters = true,
                [POLL_ALL] => message.poll_all = true,
                [DELETED, queue] => message.deleted_queues.extend(QueueName::parse(queue)),
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
    use taskqueue_store::conformance::commands::{queue, routes, task_id};
    use taskqueue_store::waiting::Hint;

    use super::*;

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
        let mut message = Message::announcement();
        let mut committed = claimable(5);
        committed.queue_deleted(&queue("old"));
        message.add(&committed);
        let text = message.to_text("me");
        let (sender, received) = Message::parse(&text);
        assert_eq!((sender, Message { bytes: message.bytes, ..received }), ("me", message));
        assert_eq!(text.lines().count(), 5, "{text}");
    }

    #[test]
    fn a_message_that_would_be_too_long_requests_a_poll_of_all_routes() {
        let mut message = Message::default();
        message.add(&claimable(400));
        assert!(!message.poll_all && message.to_text("0123456789abcdef").len() < 8_000);
        message.add(&claimable(400));
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
        ] {
            assert!(Message::parse(text).1.is_empty(), "{text:?}");
        }
    }
}
