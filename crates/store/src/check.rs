//! What a check of a database finds (`taskqueue check`): problems by rule, a bounded number of them, and how far it is. The rules
//! are in `core::soundness`; each backend reads its rows and checks what it derives from them (`check.rs` there).

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use taskqueue_core::soundness::{self, Broken, Rule};
use taskqueue_core::{Observation, QueueName, TaskId};

/// Problems that are kept; of a badly damaged database the first ones say enough.
pub const PROBLEMS_KEPT: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub rule: Rule,
    /// The subject and the fault. Never the content of a task.
    pub what: String,
}

/// The problems that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    pub problems: Vec<Problem>,
    /// How many more there are.
    pub more: u64,
}

impl Findings {
    pub fn add(&mut self, rule: Rule, what: impl Into<String>) {
        if self.problems.len() < PROBLEMS_KEPT {
            self.problems.push(Problem { rule, what: what.into() });
        } else {
            self.more += 1;
        }
    }

    /// Adds the broken rules of one task.
    pub fn add_of_task(&mut self, queue: &QueueName, id: TaskId, broken: &[Broken]) {
        for (rule, what) in broken {
            self.add(*rule, format!("task {id} of queue {queue} {what}"));
        }
    }

    /// Adds the broken rules of one observation of a queue, or that it cannot be read.
    pub fn add_of_observation(&mut self, queue: &QueueName, read: Option<Observation>) {
        let Some(observation) = read else {
            return self.add(Rule::Readable, format!("an observation of queue {queue} cannot be read"));
        };
        for (rule, what) in soundness::observation(&observation) {
            self.add(rule, format!("the observation of {} in queue {queue} {what}", observation.id));
        }
    }

    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    pub fn count(&self) -> u64 {
        self.problems.len() as u64 + self.more
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The version of the database's schema.
    pub schema: i64,
    /// True if the rules were checked. Those of an older schema are unknown to this program, and on a file that its engine
    /// finds damaged they would only repeat that.
    pub rules_checked: bool,
    pub queues: u64,
    pub tasks: u64,
    pub findings: Findings,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The database cannot be opened or read. The text says what to do.
    #[error("{0}")]
    Refused(String),
    #[error("interrupted")]
    Interrupted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The engine checks its own files; nobody knows how far it is.
    Engine,
    Tasks,
    /// Run ids and counts.
    Derived,
}

/// How far it is: what is done, and of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub step: Step,
    pub done: u64,
    pub of: u64,
}

/// Who watches a check: what is told of its progress, and the flag that ends it.
pub struct Watch<'a> {
    pub stop: Arc<AtomicBool>,
    pub report: &'a mut dyn FnMut(Progress),
}

/// Rows after which progress is told.
const TOLD_EVERY: u64 = 4_096;

impl Watch<'_> {
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Called for each row. Breaks if the check shall end.
    pub fn row(&mut self, step: Step, done: u64, of: u64) -> ControlFlow<()> {
        if done.is_multiple_of(TOLD_EVERY) {
            (self.report)(Progress { step, done, of: of.max(done) });
            if self.is_stopped() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_counted_beyond_those_that_are_kept() {
        let mut findings = Findings::default();
        assert!(findings.is_sound());
        for n in 0..250 {
            findings.add(Rule::Tally, n.to_string());
        }
        assert_eq!((findings.problems.len(), findings.more, findings.count()), (100, 150, 250));
        assert!(!findings.is_sound());
    }

    #[test]
    fn a_stopped_check_ends_at_one_of_the_next_rows() {
        let (mut told, stop) = (Vec::new(), Arc::new(AtomicBool::new(false)));
        let mut report = |progress: Progress| told.push(progress.done);
        let mut watch = Watch { stop: Arc::clone(&stop), report: &mut report };
        for done in 0..10_000 {
            assert!(watch.row(Step::Tasks, done, 10).is_continue());
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!((10_000..).find(|done| watch.row(Step::Tasks, *done, 10).is_break()), Some(12_288));
        assert_eq!(told, [0, 4_096, 8_192, 12_288]);
    }
}
