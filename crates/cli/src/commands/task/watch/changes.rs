//! The differences between two refreshes of a list.

use std::collections::{HashMap, HashSet};

use taskqueue_client::{Task, TaskId};

/// The tasks of `now` that are not in `before` or differ. Another order is no change.
pub(super) fn changed(before: &[Task], now: &[Task]) -> HashSet<TaskId> {
    let before: HashMap<TaskId, &Task> = before.iter().map(|task| (task.id, task)).collect();
    now.iter().filter(|task| before.get(&task.id) != Some(task)).map(|task| task.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::testing::task;

    #[test]
    fn tasks_that_are_new_or_different_have_changed_and_others_not() {
        let different = Task { attempt: 7, ..task(1) };
        let ids = |tasks: &[Task]| tasks.iter().map(|task| task.id).collect::<HashSet<_>>();
        assert_eq!(changed(&[], &[task(1), task(2)]), ids(&[task(1), task(2)]));
        assert_eq!(changed(&[task(1), task(2)], &[task(2), task(1)]), ids(&[]));
        assert_eq!(changed(&[task(1), task(2)], &[different, task(2), task(3)]), ids(&[task(1), task(3)]));
        assert_eq!(changed(&[task(1)], &[]), ids(&[]));
    }
}
