//! The status line: what runs, for how long, and how many were done. Text only; `console` puts it on the terminal.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use taskqueue_client::TaskId;
use taskqueue_worker::{Ending, Event};

use super::event_text::seconds;

/// What a worker does at the moment.
#[derive(Debug)]
pub(super) struct Status {
    /// What it claims: queue and route.
    what: String,
    running: BTreeMap<usize, (TaskId, Instant)>,
    idle_since: Instant,
    succeeded: u64,
    failed: u64,
    other: u64,
    is_out_of_contact: bool,
}

impl Status {
    pub(super) fn new(what: String) -> Self {
        let running = BTreeMap::new();
        Self { what, running, idle_since: Instant::now(), succeeded: 0, failed: 0, other: 0, is_out_of_contact: false }
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    pub(super) fn note(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { slot, claim } => {
                self.running.insert(*slot, (claim.task.id, Instant::now()));
            }
            Event::Ended { slot, ending, .. } => {
                self.running.remove(slot);
                self.idle_since = Instant::now();
                match ending {
                    Ending::Succeeded => self.succeeded += 1,
                    Ending::Failed { .. } => self.failed += 1,
                    _ => self.other += 1,
                }
            }
            Event::OutOfContact(_) => self.is_out_of_contact = true,
            Event::InContact => self.is_out_of_contact = false,
            _ => {}
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = match self.running.len() {
            0 => format!("{}: idle for {}", self.what, whole(self.idle_since.elapsed())),
            _ => format!("{}: running {}", self.what, self.runs()),
        };
        text.push_str(&format!(" | {} succeeded", self.succeeded));
        for (count, word) in [(self.failed, "failed"), (self.other, "given back or revoked")] {
            if count > 0 {
                text.push_str(&format!(", {count} {word}"));
            }
        }
        if self.is_out_of_contact {
            text.push_str(" | no contact with the server");
        }
        text
    }

    /// The longest-running first: that is the one that people wonder about.
    fn runs(&self) -> String {
        let mut runs: Vec<_> = self.running.values().collect();
        runs.sort_by_key(|(_, since)| *since);
        let runs: Vec<String> = runs.iter().map(|(id, since)| format!("{id} {}", whole(since.elapsed()))).collect();
        runs.join(", ")
    }
}

/// A span that changes every second at most.
fn whole(span: Duration) -> String {
    if span.as_secs() < 120 { format!("{} s", span.as_secs()) } else { seconds(span) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taskqueue_client::RunId;

    use super::*;

    #[test]
    fn it_tells_what_was_done_and_whether_the_server_answers() {
        let mut status = Status::new("default".to_owned());
        assert_eq!(status.text(), "default: idle for 0 s | 0 succeeded");
        let task_id = TaskId::parse("t_000000000001").unwrap();
        let run_id = RunId::parse("r_000000000001").unwrap();
        for ending in [Ending::Succeeded, Ending::Succeeded, Ending::Released] {
            status.note(&Event::Ended { slot: 0, task_id, run_id, ending: &ending, took: Duration::ZERO });
        }
        assert_eq!(status.text(), "default: idle for 0 s | 2 succeeded, 1 given back or revoked");
        status.running.insert(0, (task_id, Instant::now()));
        assert_eq!(status.text(), "default: running t_000000000001 0 s | 2 succeeded, 1 given back or revoked");
        let error = taskqueue_client::Error::Protocol { status: 502, message: String::new() };
        status.note(&Event::OutOfContact(&error));
        assert!(status.text().ends_with("no contact with the server"), "{}", status.text());
    }
}
