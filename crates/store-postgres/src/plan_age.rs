//! When a session makes its plans anew. A generic plan is kept until the statistics of a table change, which autovacuum sees to
//! about once a minute. One that was made while a table was empty reads all of it, and goes on when the table has filled. So plans
//! are thrown away when a table has become twice as large.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at the sizes of tables.
const PAUSE: Duration = Duration::from_secs(1);
/// Bytes of a table that any plan is good for: some hundred tasks.
const SMALL: i64 = 65_536;

#[derive(Debug, Default)]
pub(crate) struct PlanAge(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    looked_at: Option<Instant>,
    /// Of each table, the least since the plans were made.
    sizes: Vec<i64>,
    outdated: bool,
}

impl PlanAge {
    /// Whether plans have to be thrown away. Says so once.
    pub(crate) fn take_outdated(&self) -> bool {
        mem::take(&mut self.state().outdated)
    }

    /// Whether it is time to look at the sizes of tables again. Whoever is told so looks.
    pub(crate) fn look_is_due(&self, now: Instant) -> bool {
        let mut state = self.state();
        let is_due = state.looked_at.is_none_or(|last| now.saturating_duration_since(last) >= PAUSE);
        if is_due {
            state.looked_at = Some(now);
        }
        is_due
    }

    /// Sizes in bytes, of the same tables each time.
    pub(crate) fn see(&self, sizes: Vec<i64>) {
        let mut state = self.state();
        let grown = |(before, size): (&i64, &i64)| *size > 2 * SMALL.max(*before);
        if state.sizes.iter().zip(&sizes).any(grown) {
            state.outdated = true;
            state.sizes = sizes;
        } else if state.sizes.is_empty() {
            state.sizes = sizes;
        } else {
            // A table that shrinks was vacuumed, which makes plans anew by itself.
            let both = state.sizes.iter_mut().zip(sizes);
            both.for_each(|(before, size)| *before = size.min(*before));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl PlanAge {
    /// Looks at the beginning of the next transaction.
    pub(crate) fn look_next(&self) {
        self.state().looked_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_outdated_once_for_each_time_that_a_table_doubles() {
        let age = PlanAge::default();
        let mut outdated = Vec::new();
        for size in [0, SMALL, 2 * SMALL, 3 * SMALL, 6 * SMALL, 7 * SMALL, 0, SMALL, 3 * SMALL] {
            age.see(vec![9_000_000, size]);
            outdated.push(age.take_outdated());
        }
        assert_eq!(outdated, [false, false, false, true, false, true, false, false, true]);
        assert!(!age.take_outdated());
    }

    #[test]
    fn sizes_are_looked_at_once_a_second() {
        let (age, now) = (PlanAge::default(), Instant::now());
        let looks = [0, 0, 999, 1_000, 1_999, 2_000].map(|millis| age.look_is_due(now + Duration::from_millis(millis)));
        assert_eq!(looks, [true, false, false, true, false, true]);
    }
}
