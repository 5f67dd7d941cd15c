//! The failure guard: counts failures in a row. A worker whose every run fails is broken itself (a missing driver, a full
//! disk) and would use up the attempts of all tasks.

use crate::events::RunOutcome;

#[derive(Debug)]
pub(crate) struct FailureGuard {
    limit: Option<u32>,
    in_a_row: u32,
}

impl FailureGuard {
    /// Without a limit the guard never trips.
    pub(crate) fn new(limit: Option<u32>) -> Self {
        Self { limit, in_a_row: 0 }
    }

    /// Counts one run; returns the number of failures in a row when the limit is reached.
    pub(crate) fn count(&mut self, outcome: &RunOutcome) -> Option<u32> {
        match outcome {
            RunOutcome::Succeeded => self.in_a_row = 0,
            RunOutcome::Failed { .. } | RunOutcome::CannotRun(_) => self.in_a_row = self.in_a_row.saturating_add(1),
            // Says nothing about this worker.
            RunOutcome::Released | RunOutcome::Revoked(_) | RunOutcome::Undelivered => return None,
        }
        self.limit.is_some_and(|limit| self.in_a_row >= limit).then_some(self.in_a_row)
    }
}

#[cfg(test)]
mod tests {
    use super::RunOutcome::{Released, Succeeded};
    use super::*;

    fn failed() -> RunOutcome {
        RunOutcome::Failed { kind: "ExitCode".into(), message: "exit code 1".into() }
    }

    fn count(limit: Option<u32>, runs: &[RunOutcome]) -> Vec<Option<u32>> {
        let mut guard = FailureGuard::new(limit);
        runs.iter().map(|outcome| guard.count(outcome)).collect()
    }

    #[test]
    fn only_failures_in_a_row_count() {
        assert_eq!(count(Some(2), &[failed(), Succeeded, failed(), failed()]), [None, None, None, Some(2)]);
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
        assert_eq!(count(Some(1), &[failed(), RunOutcome::CannotRun("full".to_owned())]), [Some(1), Some(2)]);
    }

    #[test]
    fn without_a_limit_it_never_trips() {
        assert_eq!(count(None, &[failed(), failed(), failed()]), [None; 3]);
    }
}
