//! Which queues and routes have series of their own. There may be any number of them, and every series costs memory in each
//! monitoring system, so the rest is shown as `other`. Who has a name keeps it: series that come and go are useless. And what happened to
//! the tasks of each queue, as counters that only grow: queues without a name of their own are counted as `other` from when they have
//! none; a queue that gets a name later takes nothing back, or `other` would seem to begin anew.

use std::array;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use taskqueue_core::activity::Activity;
use taskqueue_core::durations::{BOUNDS_MICROS, BUCKETS, Durations};
use taskqueue_core::pending_parts::PendingState;
use taskqueue_core::stats::RouteFigures;
use taskqueue_core::{QueueFigures, QueueName, QueueSettings, Route, RouteSelection, Status, Timestamp};
use taskqueue_store::activity::ActivityTotals;
use taskqueue_store::histogram::HistogramValues;
use taskqueue_store::transaction::QueueKey;

/// Queues that have series of their own, and routes.
pub(crate) const NAMED_MAX: usize = 100;

/// The label of the rest. A queue or route that is called so is shown together with it.
pub(crate) const OTHER: &str = "other";

/// Returns the queues that have a name: those that were created first, so that it is the same for every server and after a restart.
pub(crate) fn named_queues(queues: &[(QueueKey, QueueName)]) -> BTreeMap<QueueKey, QueueName> {
    queues.iter().take(NAMED_MAX).cloned().collect()
}

/// The routes that have a name: those that were seen first. One that is not in use loses it when another needs the place.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouteNames {
    /// In which update it was last seen.
    last_seen: BTreeMap<Arc<str>, u64>,
    /// Those that have no place and may get one, in the order in which they were seen.
    new: Vec<Arc<str>>,
    updates: u64,
}

impl RouteNames {
    /// Takes note of a route that is in use. Its name, if it has or may get a place.
    fn see(&mut self, route: &str) -> Option<Arc<str>> {
        if let Some((name, seen)) = self.last_seen.get_key_value(route).map(|(name, seen)| (Arc::clone(name), *seen)) {
            if seen < self.updates {
                self.last_seen.insert(Arc::clone(&name), self.updates);
            }
            return Some(name);
        }
        let known = self.new.iter().find(|new| &***new == route).map(Arc::clone);
        if known.is_none() && self.new.len() < NAMED_MAX {
            self.new.push(route.into());
            return self.new.last().map(Arc::clone);
        }
        known
    }

    /// Gives the places that are free, and those of routes that are not in use, to new ones.
    fn give_places(&mut self) {
        for route in std::mem::take(&mut self.new) {
            if self.last_seen.len() >= NAMED_MAX {
                let oldest = self.last_seen.iter().min_by_key(|(_, seen)| **seen);
                let unused = oldest.filter(|(_, seen)| **seen < self.updates).map(|(route, _)| Arc::clone(route));
                let Some(unused) = unused else { break };
                self.last_seen.remove(&unused);
            }
            self.last_seen.insert(route, self.updates);
        }
    }
}

/// The figures of a store by label.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct LabelledFigures {
    pub(crate) queues: BTreeMap<Arc<str>, LabelledQueue>,
    pub(crate) routes: BTreeMap<(Arc<str>, Arc<str>), LabelledRoute>,
}

/// How many pending tasks wait for what.
type CountsByState = [u64; PendingState::ALL.len()];

/// A queue, or the rest of them.
#[derive(Debug, PartialEq)]
pub(crate) struct LabelledQueue {
    pub(crate) tasks: [u64; Status::ALL.len()],
    /// Not known if it is not of one of them.
    pub(crate) pending: Option<CountsByState>,
    /// `None` for the rest: settings cannot be added up.
    pub(crate) limits: Option<ShownLimits>,
}

/// The settings of a queue that concern claims.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ShownLimits {
    pub(crate) is_paused: bool,
    pub(crate) max_running: Option<u64>,
}

impl Default for LabelledQueue {
    fn default() -> Self {
        Self { tasks: Default::default(), pending: Some(Default::default()), limits: None }
    }
}

impl LabelledQueue {
    fn add(&mut self, figures: &QueueFigures) {
        for (count, status) in self.tasks.iter_mut().zip(Status::ALL) {
            *count += figures.tasks(status);
        }
        let sum = |(known, more): (CountsByState, CountsByState)| array::from_fn(|place| known[place] + more[place]);
        self.pending = self.pending.zip(figures.pending_by_state()).map(sum);
    }
}

/// A route of a queue, or the rest of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LabelledRoute {
    pub(crate) figures: RouteFigures,
    /// Since when a task waits for a claim and nothing else.
    pub(crate) oldest_claimable: Option<Timestamp>,
    pub(crate) running_limit: Option<u64>,
}

impl LabelledRoute {
    fn merge(&mut self, more: &Self) {
        self.figures.merge(&more.figures);
        self.oldest_claimable = [self.oldest_claimable, more.oldest_claimable].into_iter().flatten().min();
        // There is more than one only of the rest, where none is shown.
        self.running_limit = self.running_limit.or(more.running_limit);
    }
}

/// The figures by label while those of queues come one by one: nothing of a queue is held but what it adds to the labels.
pub(crate) struct Labelling {
    queue_labels: BTreeMap<QueueKey, Arc<str>>,
    other: Arc<str>,
    names: RouteNames,
    labelled: LabelledFigures,
}

impl Labelling {
    /// Begins with all queues there are, and the names that routes had last.
    pub(crate) fn new(queues: &[(QueueKey, QueueName)], mut names: RouteNames) -> Self {
        names.updates += 1;
        let label = |(key, name): (QueueKey, QueueName)| (key, name.as_str().into());
        let queue_labels = named_queues(queues).into_iter().map(label).collect();
        Self { queue_labels, other: OTHER.into(), names, labelled: LabelledFigures::default() }
    }

    /// Returns the routes of a queue that have to be told one by one.
    pub(crate) fn routes(&self) -> RouteSelection {
        let named = self.names.last_seen.keys().chain(&self.names.new);
        let besides: BTreeSet<Box<str>> = named.map(|route| Box::from(&**route)).collect();
        RouteSelection::ByName { most: NAMED_MAX, besides }
    }

    /// Adds a queue. They come in the order of their creation.
    pub(crate) fn add(&mut self, key: QueueKey, figures: &QueueFigures) {
        let label = self.queue_labels.get(&key).unwrap_or(&self.other);
        let has_name = **label != *OTHER;
        let QueueSettings { paused, max_running, route_limits, .. } = &figures.settings;
        let queue = self.labelled.queues.entry(Arc::clone(label)).or_default();
        queue.add(figures);
        queue.limits = has_name.then_some(ShownLimits { is_paused: *paused, max_running: *max_running });
        for (name, of_route) in figures.routes() {
            let limit = Route::parse(name).and_then(|route| route_limits.get(&route).copied());
            let (oldest_claimable, running_limit) = (figures.oldest_claimable(name), limit.filter(|_| has_name));
            let shown = LabelledRoute { figures: *of_route, oldest_claimable, running_limit };
            let route = self.names.see(name).unwrap_or_else(|| Arc::clone(&self.other));
            self.labelled.routes.entry((Arc::clone(label), route)).or_default().merge(&shown);
        }
        if figures.left_out.routes > 0 {
            let rest = (Arc::clone(label), Arc::clone(&self.other));
            self.labelled.routes.entry(rest).or_default().figures.merge(&figures.left_out.sum);
        }
    }

    /// Returns the figures by label, and the names that routes have from now on.
    pub(crate) fn finish(mut self) -> (LabelledFigures, RouteNames) {
        self.names.give_places();
        let mut labelled = LabelledFigures { queues: self.labelled.queues, ..LabelledFigures::default() };
        for ((queue, route), figures) in self.labelled.routes {
            let route = if self.names.last_seen.contains_key(&route) { route } else { Arc::clone(&self.other) };
            labelled.routes.entry((queue, route)).or_default().merge(&figures);
        }
        let rest = labelled.routes.iter_mut().filter(|((_, route), _)| **route == *OTHER);
        rest.for_each(|(_, figures)| figures.running_limit = None);
        (labelled, self.names)
    }
}

/// So many of the stored buckets make one that is shown: factors of four from 1 ms to 12 days.
const MERGED: usize = 4;
const SHOWN: usize = (BUCKETS - 1).div_ceil(MERGED) + 1;

/// Returns durations as they are shown, in seconds.
pub(crate) fn in_seconds(durations: &Durations) -> HistogramValues {
    let mut counts = [0; SHOWN];
    for (bucket, count) in durations.buckets() {
        counts[usize::from(*bucket).div_ceil(MERGED)] += count;
    }
    let bounds = BOUNDS_MICROS.iter().step_by(MERGED).map(|micros| *micros as f64 / 1e6);
    let buckets = bounds.chain([f64::INFINITY]).zip(counts).collect();
    HistogramValues { buckets, sum: durations.sum_micros() as f64 / 1e6 }
}

/// The events of the last scrape.
#[derive(Debug, Default)]
pub(crate) struct EventCounts {
    /// Since the process began.
    last: BTreeMap<QueueKey, Activity>,
    /// Those in queues while they had no name.
    unnamed: Activity,
    /// The names of the last scrape to which the database gave them.
    names: BTreeMap<QueueKey, QueueName>,
}

impl EventCounts {
    /// Takes note of what was counted so far and gives it by label. Without new names those of the last time are used.
    pub(crate) fn update(
        &mut self,
        totals: ActivityTotals,
        names: Option<BTreeMap<QueueKey, QueueName>>,
    ) -> BTreeMap<String, Activity> {
        if let Some(names) = names {
            self.names = names;
        }
        let nothing = Activity::default();
        let mut shown: BTreeMap<String, Activity> =
            self.names.values().map(|name| (name.as_str().to_owned(), nothing.clone())).collect();
        for (key, activity) in &totals.queues {
            match self.names.get(key) {
                Some(name) => shown.entry(name.as_str().to_owned()).or_default().merge(activity),
                None => self.unnamed.merge(&activity.since(self.last.get(key).unwrap_or(&nothing))),
            }
        }
        self.last = totals.queues;
        if self.unnamed != nothing || totals.others != nothing {
            let other = shown.entry(OTHER.to_owned()).or_default();
            other.merge(&self.unnamed);
            other.merge(&totals.others);
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::pending_parts::CountedParts;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    type Queue<'q> = (i64, String, Vec<(&'q str, u64)>);

    /// Returns what is shown of queues. Each tells as many of its routes as it is asked for.
    fn labelled(queues: &[Queue<'_>], names: RouteNames) -> (LabelledFigures, RouteNames) {
        let keys: Vec<_> =
            queues.iter().map(|(key, name, _)| (QueueKey(*key), QueueName::parse(name).unwrap())).collect();
        let mut labelling = Labelling::new(&keys, names);
        for (key, _, routes) in queues {
            let mut figures = QueueFigures::default();
            for (route, pending) in routes {
                figures.add_tasks([*route], Status::Pending, *pending);
            }
            figures.keep(&labelling.routes());
            let told: Vec<String> = figures.routes().map(|(route, _)| route.to_owned()).collect();
            told.iter().for_each(|route| figures.add_pending_since(route, at(*key)));
            labelling.add(QueueKey(*key), &figures);
        }
        labelling.finish()
    }

    #[test]
    fn the_first_hundred_queues_have_a_name_and_the_rest_is_summed_up() {
        let queues: Vec<_> = (0..150).map(|key| (key, format!("q{key}"), vec![("r", 2)])).collect();
        let (labelled, _) = labelled(&queues, RouteNames::default());
        assert_eq!(labelled.queues.len(), NAMED_MAX + 1);
        assert_eq!(labelled.queues["q99"].tasks[Status::Pending as usize], 2);
        assert_eq!(labelled.queues[OTHER].tasks[Status::Pending as usize], 100);
        let other = labelled.routes[&(OTHER.into(), "r".into())].figures;
        assert_eq!((other.pending, other.oldest_pending), (100, Some(at(100))));
    }

    #[test]
    fn a_queue_that_is_called_other_has_no_second_series() {
        let mut queues: Vec<_> = (0..100).map(|key| (key, format!("q{key}"), vec![])).collect();
        queues[7] = (7, OTHER.to_owned(), vec![("r", 1)]);
        queues.push((200, "last".to_owned(), vec![("r", 5)]));
        let (labelled, _) = labelled(&queues, RouteNames::default());
        assert_eq!(labelled.queues.len(), NAMED_MAX);
        assert_eq!(labelled.queues[OTHER].tasks[Status::Pending as usize], 6);
    }

    #[test]
    fn a_route_keeps_its_name_while_it_is_in_use() {
        let routes: Vec<String> = (0..200).map(|n| format!("r{n:03}")).collect();
        let mut names = RouteNames::default();
        let mut update = |in_use: std::ops::Range<usize>| {
            let in_use: Vec<_> = routes[in_use].iter().map(|route| (route.as_str(), 1)).collect();
            let (labelled, updated) = labelled(&[(1, "q".to_owned(), in_use.clone())], names.clone());
            names = updated;
            let pending: u64 = labelled.routes.values().map(|route| route.figures.pending).sum();
            assert_eq!(pending, in_use.len() as u64, "each route is in one series");
            let shown = labelled.routes.keys().filter(|(_, route)| &**route != OTHER);
            let shown: Vec<usize> = shown.map(|(_, route)| route[1..].parse().unwrap()).collect();
            shown
        };
        let range = |range: std::ops::Range<usize>| range.collect::<Vec<_>>();
        assert_eq!(update(50..200), range(50..150), "the first hundred");
        assert_eq!(update(0..200), range(50..150), "newcomers take no place that is in use");
        assert_eq!(update(60..200), range(60..160), "unused places are given away");
        assert_eq!(update(0..60), range(0..60), "nobody else is there");
    }

    #[test]
    fn of_thousands_of_routes_of_many_queues_a_few_are_held() {
        let routes: Vec<String> = (0..500).map(|n| format!("r{n:03}")).collect();
        let routes: Vec<_> = routes.iter().map(|route| (route.as_str(), 1)).collect();
        let queues: Vec<_> = (0..30).map(|key| (key, format!("q{key}"), routes.clone())).collect();
        let (first, names) = labelled(&queues, RouteNames::default());
        assert_eq!(first.routes.len(), 30 * (NAMED_MAX + 1));
        assert_eq!(first.routes[&("q7".into(), OTHER.into())].figures.pending, 400);
        let (again, _) = labelled(&queues, names);
        let pending = |figures: &LabelledFigures| -> Vec<_> {
            figures.routes.iter().map(|(labels, route)| (labels.clone(), route.figures.pending)).collect()
        };
        assert_eq!(pending(&again), pending(&first));
    }
    /// A queue with two claimable tasks on the route `r` and one delayed, paused or not, with limits.
    fn limited(is_paused: bool) -> QueueFigures {
        let mut figures = QueueFigures::default();
        figures.add_tasks(["r"], Status::Pending, 3);
        figures.add_pending_since("r", at(5));
        let route_limits = [(Route::parse("r").unwrap(), 4), (Route::parse("unused").unwrap(), 9)].into();
        let max_running = Some(7);
        figures.settings = QueueSettings { paused: is_paused, max_running, route_limits, ..QueueSettings::default() };
        figures.set_pending(CountedParts { claimable: Some(2), delayed: Some(1), blocked: Some(0) });
        figures
    }

    #[test]
    fn what_is_paused_is_not_claimable_and_only_named_queues_show_their_limits() {
        let named = |key: i64| (QueueKey(key), QueueName::parse(&format!("q{key}")).unwrap());
        let queues: Vec<_> = (0..102).map(named).collect();
        let mut labelling = Labelling::new(&queues, RouteNames::default());
        for (key, is_paused) in [(0, false), (1, true), (100, true), (101, false)] {
            labelling.add(QueueKey(key), &limited(is_paused));
        }
        let (labelled, _) = labelling.finish();
        let limits = |is_paused| Some(ShownLimits { is_paused, max_running: Some(7) });
        let route = |queue: &str| labelled.routes[&(queue.into(), "r".into())];
        let cases = [
            ("q0", [2, 1, 0, 0], limits(false), Some(at(5)), Some(4)),
            ("q1", [0, 1, 0, 2], limits(true), None, Some(4)),
            (OTHER, [2, 2, 0, 2], None, Some(at(5)), None),
        ];
        for (queue, pending, limits, oldest, limit) in cases {
            let LabelledQueue { pending: shown, limits: shown_limits, .. } = &labelled.queues[queue];
            assert_eq!((*shown, *shown_limits), (Some(pending), limits), "{queue}");
            assert_eq!((route(queue).oldest_claimable, route(queue).running_limit), (oldest, limit), "{queue}");
            assert_eq!(route(queue).figures.oldest_pending, Some(at(5)), "{queue}");
        }
        assert_eq!(labelled.routes.len(), 3, "a route that nobody uses has no series");
    }

    #[test]
    fn what_is_not_known_of_one_queue_is_not_known_of_the_rest() {
        let mut labelling = Labelling::new(&[], RouteNames::default());
        labelling.add(QueueKey(1), &limited(false));
        labelling.add(QueueKey(2), &QueueFigures::default());
        labelling.add(QueueKey(3), &limited(false));
        assert_eq!(labelling.finish().0.queues[OTHER].pending, None);
    }
}

#[cfg(test)]
mod event_tests {
    use taskqueue_core::activity::{Event, Record};

    use super::*;

    fn totals(queues: &[(i64, u64)], others: u64) -> ActivityTotals {
        let activity = |created| {
            let mut activity = Activity::default();
            activity.counts.add(Event::Created, created);
            activity
        };
        let queues = queues.iter().map(|(key, created)| (QueueKey(*key), activity(*created))).collect();
        ActivityTotals { queues, others: activity(others) }
    }

    fn names(names: &[(i64, &str)]) -> Option<BTreeMap<QueueKey, QueueName>> {
        Some(names.iter().map(|(key, name)| (QueueKey(*key), QueueName::parse(name).unwrap())).collect())
    }

    fn created(shown: &BTreeMap<String, Activity>) -> Vec<(&str, u64)> {
        shown.iter().map(|(label, counts)| (label.as_str(), counts.counts.of(Event::Created))).collect()
    }

    #[test]
    fn what_is_counted_as_other_never_shrinks() {
        let mut counts = EventCounts::default();
        let shown = counts.update(totals(&[(1, 5), (2, 3)], 0), names(&[(1, "a")]));
        assert_eq!(created(&shown), [("a", 5), ("other", 3)]);
        // The second queue gets the name of one that was deleted, and a third one appears.
        let shown = counts.update(totals(&[(1, 5), (2, 4), (3, 1)], 7), names(&[(2, "b")]));
        assert_eq!(created(&shown), [("b", 4), ("other", 11)]);
        let shown = counts.update(totals(&[(2, 9), (3, 2)], 7), None);
        assert_eq!(created(&shown), [("b", 9), ("other", 12)], "the names of the last time");
    }

    #[test]
    fn a_queue_in_which_nothing_happened_is_shown_with_zeros() {
        let shown = EventCounts::default().update(totals(&[], 0), names(&[(1, "a"), (2, "other")]));
        assert_eq!(created(&shown), [("a", 0), ("other", 0)]);
    }

    #[test]
    fn durations_are_shown_in_buckets_of_a_factor_of_four() {
        let mut activity = Activity::default();
        for micros in [0, 999, 1_000, 3_999, 4_000, 1_023_999, 1_024_000, 1 << 62] {
            activity.add(Record { event: Event::Claimed, micros: Some(micros) });
        }
        let values = in_seconds(&activity.waits);
        assert_eq!(values.buckets.len(), SHOWN);
        let filled: Vec<_> = values.buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!(filled, [(0.001, 2), (0.004, 2), (0.016, 1), (1.024, 1), (4.096, 1), (f64::INFINITY, 1)]);
        assert_eq!(values.count(), 8);
    }
}
