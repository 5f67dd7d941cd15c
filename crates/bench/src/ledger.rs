//! Who holds which task, as far as answers tell: finds every task that is handed out twice.

/// The state of every task, one bit each, by number.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    held: Bits,
    completed: Bits,
    twice: u64,
}

impl Ledger {
    /// A claim was answered with this task.
    pub(crate) fn handed_out(&mut self, task: u64) {
        if self.held.get(task) || self.completed.get(task) {
            self.twice += 1;
        }
        self.held.set(task, true);
    }

    /// The end of a run is about to be sent. From then on the server may hand the task out again, unless it is complete.
    pub(crate) fn ends(&mut self, task: u64, completes: bool) {
        self.held.set(task, false);
        if completes {
            self.completed.set(task, true);
        }
    }

    /// How many tasks were handed out while they were held or after they were complete.
    pub(crate) fn twice(&self) -> u64 {
        self.twice
    }
}

#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn get(&self, at: u64) -> bool {
        let (word, bit) = place(at);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    fn set(&mut self, at: u64, on: bool) {
        let (word, bit) = place(at);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if on {
            self.0[word] |= bit;
        } else {
            self.0[word] &= !bit;
        }
    }
}

fn place(at: u64) -> (usize, u64) {
    (usize::try_from(at / 64).unwrap_or(0), 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_may_be_handed_out_again_after_it_was_given_back() {
        let mut ledger = Ledger::default();
        ledger.handed_out(100);
        ledger.ends(100, false);
        ledger.handed_out(100);
        assert_eq!(ledger.twice(), 0);
    }

    #[test]
    fn a_held_or_complete_task_must_not_be_handed_out() {
        let mut ledger = Ledger::default();
        ledger.handed_out(1);
        ledger.handed_out(1);
        assert_eq!(ledger.twice(), 1);
        ledger.ends(1, true);
        ledger.handed_out(1);
        assert_eq!(ledger.twice(), 2);
    }
}
