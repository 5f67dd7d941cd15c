//! What servers on one database tell each other, as the text of a notification: the name of the sender, then lines.
//! `waits`: somebody waits there. `look`: look at everything. `- queue`: it is gone. `queue routes id id`: these became
//! claimable. Names hold no blanks. What cannot be understood is left out: nothing depends on it.

use std::collections::BTreeMap;

use taskqueue_core::definition::Routes;
use taskqueue_core::ids::{QueueName, Route, TaskId};
use taskqueue_store::claimable::Claimable;

/// PostgreSQL takes less than 8,000 bytes.
const MOST_BYTES: usize = 7_900;

const WAITS: &str = "waits";
const LOOK: &str = "look";
const GONE: &str = "-";

/// What one server tells.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) waits: bool,
    pub(crate) everywhere: bool,
    pub(crate) gone: Vec<QueueName>,
    pub(crate) tasks: BTreeMap<(QueueName, Routes), Vec<TaskId>>,
    /// Of the lines that it makes; more than fit are not kept.
    bytes: usize,
}

impl Notice {
    /// Tells that somebody waits here.
    pub(crate) fn of_waiting() -> Self {
        Self { waits: true, ..Self::default() }
    }

    /// Adds what was committed. When it gets too much, everything is to be looked at instead.
    pub(crate) fn add(&mut self, claimable: &Claimable) {
        self.everywhere |= claimable.must_poll_all_routes();
        self.gone.extend(claimable.deleted_queues().iter().cloned());
        self.bytes += claimable.deleted_queues().iter().map(|queue| queue.as_str().len() + 3).sum::<usize>();
        for hint in claimable.hints() {
            let Some(task) = hint.task else { continue };
            let (queue, routes) = (hint.queue.as_str().len(), hint.routes.as_json().len());
            let tasks = self.tasks.entry((hint.queue.clone(), hint.routes.clone())).or_default();
            self.bytes += if tasks.is_empty() { queue + routes + 2 } else { 0 } + task.as_str().len() + 1;
            tasks.push(task);
        }
        if self.bytes > MOST_BYTES {
            *self = Self { waits: self.waits, everywhere: true, ..Self::default() };
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The text, from the server `sender`.
    pub(crate) fn to_text(&self, sender: &str) -> String {
        let mut lines = vec![sender.to_owned()];
        lines.extend(self.waits.then(|| WAITS.to_owned()));
        lines.extend(self.everywhere.then(|| LOOK.to_owned()));
        lines.extend(self.gone.iter().map(|queue| format!("{GONE} {queue}")));
        for ((queue, routes), tasks) in &self.tasks {
            let tasks: Vec<&str> = tasks.iter().map(TaskId::as_str).collect();
            lines.push(format!("{queue} {} {}", routes.as_json(), tasks.join(" ")));
        }
        lines.join("\n")
    }

    /// The sender and what it tells.
    pub(crate) fn of_text(text: &str) -> (&str, Self) {
        let mut lines = text.lines();
        let sender = lines.next().unwrap_or_default();
        let mut notice = Self::default();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                [WAITS] => notice.waits = true,
                [LOOK] => notice.everywhere = true,
                [GONE, queue] => notice.gone.extend(QueueName::parse(queue)),
                [queue, routes, tasks @ ..] => {
                    let (Some(queue), Some(routes)) = (QueueName::parse(queue), parse_routes(routes)) else { continue };
                    let tasks = tasks.iter().filter_map(|task| TaskId::parse(task));
                    notice.tasks.entry((queue, routes)).or_default().extend(tasks);
                }
                _ => {}
            }
        }
        (sender, notice)
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
    fn what_is_told_is_what_is_heard() {
        let mut notice = Notice::of_waiting();
        let mut told = claimable(5);
        told.queue_deleted(&queue("old"));
        notice.add(&told);
        let text = notice.to_text("me");
        let (sender, heard) = Notice::of_text(&text);
        assert_eq!((sender, Notice { bytes: notice.bytes, ..heard }), ("me", notice));
        assert_eq!(text.lines().count(), 5, "{text}");
    }

    #[test]
    fn too_much_becomes_a_look_at_everything() {
        let mut notice = Notice::default();
        notice.add(&claimable(400));
        assert!(!notice.everywhere && notice.to_text("0123456789abcdef").len() < 8_000);
        notice.add(&claimable(400));
        assert_eq!(notice.to_text("me"), "me\nlook");
    }

    #[test]
    fn what_strangers_say_is_nothing() {
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
            assert!(Notice::of_text(text).1.is_empty(), "{text:?}");
        }
    }
}
