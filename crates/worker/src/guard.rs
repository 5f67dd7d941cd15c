//! The failure guard: a counter of failures in a row. A worker whose every run fails is broken itself (a missing driver, a
//! full disk) and would only use up the attempts of all tasks.

/// How a run ended, as far as the guard is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// The run did what it should.
    Succeeded,
    /// It did not, or could not even begin.
    Failed,
    /// It was revoked or given back, which says nothing about this worker.
    Undecided,
}

/// Counts failures in a row.
#[derive(Debug)]
pub(crate) struct Guard {
    limit: Option<u32>,
    in_a_row: u32,
}

impl Guard {
    /// A guard that speaks up at `limit` failures in a row; nothing means never.
    pub(crate) fn new(limit: Option<u32>) -> Self {
        Self { limit, in_a_row: 0 }
    }

    /// Counts one run; gives the number of failures in a row when that is too many.
    pub(crate) fn count(&mut self, tried: Tried) -> Option<u32> {
        match tried {
            Tried::Succeeded => self.in_a_row = 0,
            Tried::Failed => self.in_a_row = self.in_a_row.saturating_add(1),
            Tried::Undecided => return None,
        }
        self.limit.is_some_and(|limit| self.in_a_row >= limit).then_some(self.in_a_row)
    }
}

#[cfg(test)]
mod tests {
    use super::Tried::{Failed, Succeeded, Undecided};
    use super::*;

    fn count(limit: Option<u32>, runs: &[Tried]) -> Vec<Option<u32>> {
        let mut guard = Guard::new(limit);
        runs.iter().map(|tried| guard.count(*tried)).collect()
    }

    #[test]
    fn only_failures_in_a_row_count() {
        assert_eq!(count(Some(2), &[Failed, Succeeded, Failed, Failed]), [None, None, None, Some(2)]);
    }

    #[test]
    fn revoked_and_released_runs_neither_count_nor_reset() {
        assert_eq!(count(Some(2), &[Failed, Undecided, Failed]), [None, None, Some(2)]);
        assert_eq!(count(Some(1), &[Undecided]), [None]);
    }

    #[test]
    fn runs_that_were_under_way_when_it_spoke_up_do_not_silence_it() {
        assert_eq!(count(Some(1), &[Failed, Failed]), [Some(1), Some(2)]);
    }

    #[test]
    fn without_a_limit_it_never_speaks_up() {
        assert_eq!(count(None, &[Failed; 3]), [None; 3]);
    }
}
