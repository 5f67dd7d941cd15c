//! The text of the status line: what runs, for how long, and how many runs have ended.

use std::collections::BTreeMap;
use std::time::Instant;

use taskqueue_client::TaskId;
use taskqueue_worker::{Event, RunOutcome};

use super::event_text::whole_seconds;

#[derive(Debug)]
pub(super) struct Status {
    /// Queue and route.
    source: String,
    running: BTreeMap<usize, (TaskId, Instant)>,
    idle_since: Instant,
    succeeded: u64,
    failed: u64,
    other: u64,
    is_unreachable: bool,
}

impl Status {
    pub(super) fn new(source: String) -> Self {
        let running = BTreeMap::new();
        Self { source, running, idle_since: Instant::now(), succeeded: 0, failed: 0, other: 0, is_unreachable: false }
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    pub(super) fn update(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { slot, claim } => {
                self.running.insert(*slot, (claim.task.id, Instant::now()));
            }
            Event::Ended { slot, outcome, .. } => {
                self.running.remove(slot);
                self.idle_since = Instant::now();
                match outcome {
                    RunOutcome::Succeeded => self.succeeded += 1,
                    RunOutcome::Failed { .. } => self.failed += 1,
                    _ => self.other += 1,
                }
            }
            Event::ServerUnreachable(_) => self.is_unreachable = true,
            Event::ServerReachable { .. } => self.is_unreachable = false,
            _ => {}
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = match self.running.len() {
            0 => format!("{}: idle for {}", self.source, whole_seconds(self.idle_since.elapsed())),
            _ => format!("{}: running {}", self.source, self.runs()),
        };
        text.push_str(&format!(" | {} succeeded", self.succeeded));
        for (count, word) in [(self.failed, "failed"), (self.other, "given back or revoked")] {
            if count > 0 {
                text.push_str(&format!(", {count} {word}"));
            }
        }
        if self.is_unreachable {
            text.push_str(" | the server does not answer");
        }
        text
    }

    /// The longest-running first.
    fn runs(&self) -> String {
        let mut runs: Vec<_> = self.running.values().collect();
        runs.sort_by_key(|(_, since)| *since);
        let runs: Vec<String> =
            runs.iter().map(|(id, since)| format!("{id} {}", whole_seconds(since.elapsed()))).collect();
        runs.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taskqueue_client::RunId;

    use super::*;

    #[test]
    fn it_shows_what_was_done_and_whether_the_server_answers() {
        let mut status = Status::new("default".to_owned());
        assert_eq!(status.text(), "default: idle for 0 s | 0 succeeded");
        let task_id = TaskId::parse("t_000000000001").unwrap();
        let run_id = RunId::parse("r_000000000001").unwrap();
        for outcome in [RunOutcome::Succeeded, RunOutcome::Succeeded, RunOutcome::Released] {
            status.update(&Event::Ended { slot: 0, task_id, run_id, outcome: &outcome, took: Duration::ZERO });
        }
        assert_eq!(status.text(), "default: idle for 0 s | 2 succeeded, 1 given back or revoked");
        status.running.insert(0, (task_id, Instant::now()));
        assert_eq!(status.text(), "default: running t_000000000001 0 s | 2 succeeded, 1 given back or revoked");
        let error = taskqueue_client::Error::Protocol { status: 502, message: String::new(), from_taskqueue: false };
        status.update(&Event::ServerUnreachable(&error));
        assert!(status.text().ends_with("the server does not answer"), "{}", status.text());
    }
}
