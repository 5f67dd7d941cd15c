//! Which tasks are held, by the answers of the server: finds every task that is handed out twice.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Held,
    Completed,
}

#[derive(Debug, Default)]
pub(crate) struct DoubleClaimCheck {
    /// By the number of the task.
    states: Vec<State>,
    double_claims: u64,
}

impl DoubleClaimCheck {
    /// Notes that a claim was answered with this task.
    pub(crate) fn handed_out(&mut self, task: u64) {
        self.double_claims += u64::from(self.set(task, State::Held) != State::Free);
    }

    /// Notes that the end of a run is about to be sent. From then on the server may hand the task out again, unless it is
    /// complete.
    pub(crate) fn ends(&mut self, task: u64, completes: bool) {
        self.set(task, if completes { State::Completed } else { State::Free });
    }

    /// How many tasks were handed out while they were held or after they were complete.
    pub(crate) fn double_claims(&self) -> u64 {
        self.double_claims
    }

    /// The state before.
    fn set(&mut self, task: u64, state: State) -> State {
        let at = usize::try_from(task).unwrap_or(0);
        if self.states.len() <= at {
            self.states.resize(at + 1, State::Free);
        }
        std::mem::replace(&mut self.states[at], state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_may_be_handed_out_again_after_it_was_given_back() {
        let mut claim_check = DoubleClaimCheck::default();
        claim_check.handed_out(100);
        claim_check.ends(100, false);
        claim_check.handed_out(100);
        assert_eq!(claim_check.double_claims(), 0);
    }

    #[test]
    fn a_held_or_complete_task_must_not_be_handed_out() {
        let mut claim_check = DoubleClaimCheck::default();
        claim_check.handed_out(1);
        claim_check.handed_out(1);
        assert_eq!(claim_check.double_claims(), 1);
        claim_check.ends(1, true);
        claim_check.handed_out(1);
        assert_eq!(claim_check.double_claims(), 2);
    }
}
