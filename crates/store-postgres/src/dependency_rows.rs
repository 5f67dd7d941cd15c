//! What one transaction knows of tasks that wait for others: what is noted of each dependency, as the commands so far have left it,
//! and the status of dependencies that it has locked. No statement runs here and nothing is decided.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use taskqueue_core::{Dependencies, DependencyState, Status, TaskHead, TaskId};
use taskqueue_store::{QueueKey, TaskKey};

use crate::rows::{DependencyRow, UnsettledRow};
use crate::transaction_rows::{Found, TransactionRows};

/// A task, a dependency of it by its id, and the queue of both.
type Pair = (QueueKey, TaskId, TaskKey);
/// A task that others wait for.
pub(crate) type Dependency = (QueueKey, TaskId);

/// What is noted of a dependency of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    /// Nothing if the task no longer waits for it.
    pub(crate) state: Option<DependencyState>,
    /// Whether the database does not hold this yet.
    pub(crate) changed: bool,
}

#[derive(Default)]
pub(crate) struct DependencyRows {
    /// Of tasks that this transaction holds: nobody else changes these.
    pub(crate) pairs: BTreeMap<Pair, Noted>,
    /// Dependencies of which all pairs are here, except those that `held_elsewhere` tells of.
    pub(crate) complete: HashSet<Dependency>,
    /// Dependencies that tasks wait for which others held when they were listed. What was noted of those may have changed since.
    pub(crate) held_elsewhere: HashSet<Dependency>,
    /// Dependencies whose dependents are asked for soon; and whether those are cancelled with them, and so on.
    pub(crate) expected: BTreeMap<Dependency, bool>,
    /// Dependencies whose status is asked for soon.
    pub(crate) looked_up_next: VecDeque<(QueueKey, Dependencies)>,
    /// No task of any queue waits for another one, as was found after all tasks were locked that this transaction holds.
    pub(crate) unused: bool,
    /// The same of single queues.
    pub(crate) queues: HashMap<QueueKey, bool>,
    /// Tasks that were locked against changes by others.
    pub(crate) statuses: HashMap<Dependency, Found<Status>>,
    /// Whether this transaction has its queue for itself alone: who holds a task of it lets it go soon, and nobody else changes one.
    pub(crate) is_alone: bool,
    /// Queues in which a task waits for another one, as far as it is known here.
    pub(crate) waits_in: HashSet<QueueKey>,
    /// How often this transaction has paused for dependents that others hold.
    pub(crate) pauses: u32,
    /// Queues that were locked by their keys: whether that succeeded.
    pub(crate) held_queues: HashMap<QueueKey, bool>,
    /// To be noted: whose dependents are to be looked at again, and whether only because they did not exist.
    pub(crate) unsettled: BTreeSet<(QueueKey, TaskId, bool)>,
    /// The rows of those that this transaction works off.
    pub(crate) found_unsettled: HashMap<Dependency, i64>,
    /// The last of these rows that was loaded, and how many they were.
    pub(crate) unsettled_seen: (i64, usize),
    /// Those of them that were not looked at yet.
    pub(crate) loaded_unsettled: VecDeque<UnsettledRow>,
    /// Those of them that are to be removed.
    pub(crate) worked_off: Vec<i64>,
}

impl DependencyRows {
    /// A task was locked: whether others wait for it is looked up again. Some may have begun to do so just before.
    pub(crate) fn task_was_locked(&mut self, queue: QueueKey, id: TaskId) {
        self.complete.remove(&(queue, id));
        self.unused = false;
        self.queues.retain(|_, has_dependents| *has_dependents);
    }

    /// Adds what the database has noted. What this transaction has changed stays.
    pub(crate) fn add(&mut self, row: &DependencyRow) {
        let read = Noted { state: row.is_there.then_some(row.state), changed: !row.is_there };
        self.waits_in.insert(row.queue);
        let noted = self.pairs.entry((row.queue, row.dependency, row.task)).or_insert(read);
        if !noted.changed {
            *noted = read;
        }
    }

    pub(crate) fn save(&mut self, queue: QueueKey, dependency: TaskId, task: TaskKey, state: Option<DependencyState>) {
        self.waits_in.insert(queue);
        self.pairs.insert((queue, dependency, task), Noted { state, changed: true });
    }

    pub(crate) fn replace(
        &mut self,
        queue: QueueKey,
        task: TaskKey,
        before: &Dependencies,
        after: &[(TaskId, DependencyState)],
    ) {
        for id in before.as_slice() {
            // Both are sorted.
            if after.binary_search_by_key(id, |(id, _)| *id).is_err() {
                self.save(queue, *id, task, None);
            }
        }
        for (id, state) in after {
            // What the database holds already, others see.
            if self.pairs.get(&(queue, *id, task)) == Some(&Noted { state: Some(*state), changed: false }) {
                continue;
            }
            self.save(queue, *id, task, Some(*state));
            // Another server may create it, and end it, before it sees that somebody waits.
            if self.statuses.get(&(queue, *id)) == Some(&Found::Missing) {
                self.unsettled.insert((queue, *id, true));
            }
        }
    }

    /// The dependents of a task are asked for soon. `follows`: some of them may be cancelled with it.
    pub(crate) fn expect(&mut self, queue: QueueKey, dependency: TaskId, follows: bool) {
        if !self.complete.contains(&(queue, dependency)) {
            self.expected.insert((queue, dependency), follows);
        }
    }

    /// These tasks are requeued next, instead of those that were expected before.
    pub(crate) fn expect_requeues(&mut self, queue: QueueKey, tasks: &mut dyn Iterator<Item = &TaskHead>) {
        self.looked_up_next.clear();
        self.expected.retain(|_, follows| *follows);
        for task in tasks {
            self.expect(queue, task.id, false);
            self.looked_up_next.push_back((queue, task.scheduling.dependencies.clone()));
        }
    }

    /// If this dependency is expected: itself, and at most so many with it that are expected in the same way.
    pub(crate) fn take_expected(
        &mut self,
        (queue, dependency): Dependency,
        most: usize,
    ) -> Option<(Vec<TaskId>, bool)> {
        let follows = self.expected.remove(&(queue, dependency))?;
        let alike = self.expected.iter().filter(|((other, _), kind)| *other == queue && **kind == follows);
        let others = alike.map(|((_, id), _)| *id).take(most.saturating_sub(1));
        Some((std::iter::once(dependency).chain(others).collect(), follows))
    }

    /// The tasks that wait for this one, behind `after`, by key, with what is noted.
    pub(crate) fn dependents(
        &self,
        (queue, dependency): Dependency,
        after: Option<TaskKey>,
    ) -> impl Iterator<Item = (TaskKey, DependencyState)> {
        let first = after.map_or(i64::MIN, |after| after.0.saturating_add(1));
        let range = (queue, dependency, TaskKey(first))..=(queue, dependency, TaskKey(i64::MAX));
        self.pairs.range(range).filter_map(|((_, _, task), noted)| Some((*task, noted.state?)))
    }

    /// After everything was sent: the database holds what is here.
    pub(crate) fn mark_stored(&mut self) {
        self.pairs.retain(|_, noted| noted.state.is_some());
        self.pairs.values_mut().for_each(|noted| noted.changed = false);
        self.unsettled.clear();
        self.worked_off.clear();
    }

    /// Forgets what was loaded, except the status of dependencies that `is_changed` does not hold for.
    pub(crate) fn forget(&mut self, is_changed: impl Fn(&Dependency) -> bool) {
        self.pairs.clear();
        self.complete.clear();
        self.held_elsewhere.clear();
        self.expected.clear();
        self.queues.clear();
        self.unused = false;
        self.statuses.retain(|task, _| !is_changed(task));
    }
}

impl TransactionRows {
    /// Adds what was listed of a task that waits, if this transaction holds it.
    pub(crate) fn add_listed(&mut self, row: &DependencyRow) {
        if !row.is_there || self.tasks.get(&row.task).is_some_and(|entry| entry.held) {
            self.dependencies.add(row);
        } else {
            self.dependencies.waits_in.insert(row.queue);
            self.dependencies.held_elsewhere.insert((row.queue, row.dependency));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> TaskId {
        TaskId::parse(text).unwrap()
    }

    #[test]
    fn only_what_differs_from_what_is_stored_is_saved() {
        let (queue, task) = (QueueKey(1), TaskKey(1));
        let (waiting, failed) = (DependencyState::Waiting, DependencyState::Failed);
        let [same, other, gone, new] = ["t_aaaaaaaaaaaa", "t_bbbbbbbbbbbb", "t_cccccccccccc", "t_dddddddddddd"].map(id);
        let mut rows = DependencyRows::default();
        for dependency in [same, other, gone] {
            rows.add(&DependencyRow { queue, dependency, task, state: waiting, is_there: true });
        }
        rows.statuses.extend([same, new].map(|id| ((queue, id), Found::Missing)));
        let before = Dependencies::new(vec![same, other, gone]).unwrap();
        rows.replace(queue, task, &before, &[(same, waiting), (other, failed), (new, waiting)]);
        let noted = |id: TaskId| rows.pairs[&(queue, id, task)];
        assert_eq!(noted(same), Noted { state: Some(waiting), changed: false });
        assert_eq!(noted(other), Noted { state: Some(failed), changed: true });
        assert_eq!(noted(gone), Noted { state: None, changed: true });
        assert_eq!(noted(new), Noted { state: Some(waiting), changed: true });
        assert_eq!(rows.unsettled, BTreeSet::from([(queue, new, true)]), "who waits for `same` was seen before");
    }
}
