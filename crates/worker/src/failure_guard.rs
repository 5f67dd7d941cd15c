//! The failure guard: counts failures in a row of different tasks. A worker with which every task fails is broken itself (a missing
//! driver, a full disk) and would use up the attempts of all tasks. A task that fails at every attempt is not the worker's fault.

use taskqueue_client::TaskId;

use crate::events::RunOutcome;

#[derive(Debug)]
pub(crate) struct FailureGuard {
    limit: Option<u32>,
    /// The different tasks that have failed since the last success. Never more than the limit and the slots.
    failed: Vec<TaskId>,
    /// How often this worker could not run a task. That is no fault of the task and not charged, so the same task counts each time.
    could_not_run: u32,
}

impl FailureGuard {
    /// Without a limit the guard never trips.
    pub(crate) fn new(limit: Option<u32>) -> Self {
        Self { limit, failed: Vec::new(), could_not_run: 0 }
    }

    /// Counts one run; returns the number of failures in a row when the limit is reached.
    pub(crate) fn count(&mut self, task_id: TaskId, outcome: &RunOutcome) -> Option<u32> {
        let limit = self.limit?;
        match outcome {
            RunOutcome::Succeeded => {
                self.failed.clear();
                self.could_not_run = 0;
            }
            RunOutcome::Failed { .. } if self.failed.contains(&task_id) => {}
            RunOutcome::Failed { .. } => self.failed.push(task_id),
            RunOutcome::CannotRun(_) => self.could_not_run = self.could_not_run.saturating_add(1),
            // Says nothing about this worker.
            RunOutcome::Released | RunOutcome::Revoked(_) | RunOutcome::Undelivered => return None,
        }
        let in_a_row = u32::try_from(self.failed.len()).unwrap_or(u32::MAX).saturating_add(self.could_not_run);
        (in_a_row >= limit).then_some(in_a_row)
    }
}

#[cfg(test)]
mod tests {
    use super::RunOutcome::{Released, Succeeded};
    use super::*;

    fn task(number: u8) -> TaskId {
        TaskId::parse(&format!("t_00000000000{number}")).unwrap()
    }

    fn failed() -> RunOutcome {
        RunOutcome::Failed { kind: "ExitCode".into(), message: "exit code 1".into() }
    }

    fn cannot_run() -> RunOutcome {
        RunOutcome::CannotRun("full".to_owned())
    }

    /// Counts runs of these tasks.
    fn count_of(limit: Option<u32>, runs: &[(u8, RunOutcome)]) -> Vec<Option<u32>> {
        let mut guard = FailureGuard::new(limit);
        runs.iter().map(|(number, outcome)| guard.count(task(*number), outcome)).collect()
    }

    /// Counts runs of different tasks.
    fn count(limit: Option<u32>, runs: &[RunOutcome]) -> Vec<Option<u32>> {
        let runs: Vec<(u8, RunOutcome)> = (0..).zip(runs.iter().cloned()).collect();
        count_of(limit, &runs)
    }

    #[test]
    fn only_failures_in_a_row_count() {
        assert_eq!(count(Some(2), &[failed(), Succeeded, failed(), failed()]), [None, None, None, Some(2)]);
    }

    #[test]
    fn a_task_that_fails_again_counts_once() {
        let runs = [1, 2, 1, 2, 1, 2, 3].map(|number| (number, failed()));
        assert_eq!(count_of(Some(3), &runs), [None, None, None, None, None, None, Some(3)]);
        let runs = [(1, failed()), (2, failed()), (3, Succeeded), (1, failed()), (2, failed()), (4, failed())];
        assert_eq!(count_of(Some(3), &runs), [None, None, None, None, None, Some(3)], "a success resets");
    }

    #[test]
    fn a_worker_that_cannot_run_the_same_task_counts_each_time() {
        assert_eq!(count_of(Some(2), &[(1, cannot_run()), (1, cannot_run())]), [None, Some(2)]);
        assert_eq!(count_of(Some(2), &[(1, cannot_run()), (1, failed())]), [None, Some(2)]);
    }

    #[test]
    fn revoked_and_released_runs_neither_count_nor_reset() {
        for undecided in [Released, RunOutcome::Revoked("cancelled".to_owned()), RunOutcome::Undelivered] {
            assert_eq!(count(Some(2), &[failed(), undecided.clone(), failed()]), [None, None, Some(2)]);
            assert_eq!(count(Some(1), &[undecided]), [None]);
        }
    }

    #[test]
    fn runs_that_end_after_it_has_tripped_do_not_reset_it() {
        assert_eq!(count(Some(1), &[failed(), cannot_run()]), [Some(1), Some(2)]);
    }

    #[test]
    fn without_a_limit_it_never_trips() {
        assert_eq!(count(None, &[failed(), failed(), failed()]), [None; 3]);
    }
}
