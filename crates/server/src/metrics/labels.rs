//! Which queues and routes have series of their own. There may be any number of them, and every series costs memory in each
//! monitoring system, so the rest is shown as `other`. Who has a name keeps it: series that come and go are useless.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use taskqueue_core::ids::QueueName;
use taskqueue_core::stats::{QueueFigures, RouteFigures, RouteSelection};
use taskqueue_core::status::Status;
use taskqueue_store::transaction::QueueKey;

/// Queues that have series of their own, and routes.
pub(crate) const NAMED_MAX: usize = 100;

/// The label of the rest. A queue or route that is called so is shown together with it.
pub(crate) const OTHER: &str = "other";

/// The queues that have a name: those that were created first, so that it is the same for every server and after a restart.
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
    pub(crate) queues: BTreeMap<Arc<str>, [u64; Status::ALL.len()]>,
    pub(crate) routes: BTreeMap<(Arc<str>, Arc<str>), RouteFigures>,
}

/// The same while the figures of queues come one by one: nothing of a queue is held but what it adds to the labels.
pub(crate) struct Labelling {
    queue_labels: BTreeMap<QueueKey, Arc<str>>,
    other: Arc<str>,
    names: RouteNames,
    labelled: LabelledFigures,
}

impl Labelling {
    /// Of all queues there are, with the names that routes had last.
    pub(crate) fn new(queues: &[(QueueKey, QueueName)], mut names: RouteNames) -> Self {
        names.updates += 1;
        let label = |(key, name): (QueueKey, QueueName)| (key, name.as_str().into());
        let queue_labels = named_queues(queues).into_iter().map(label).collect();
        Self { queue_labels, other: OTHER.into(), names, labelled: LabelledFigures::default() }
    }

    /// The routes of a queue that have to be told one by one.
    pub(crate) fn routes(&self) -> RouteSelection {
        let named = self.names.last_seen.keys().chain(&self.names.new);
        let besides: BTreeSet<Box<str>> = named.map(|route| Box::from(&**route)).collect();
        RouteSelection::ByName { most: NAMED_MAX, besides }
    }

    /// Adds a queue. They come in the order of their creation.
    pub(crate) fn add(&mut self, key: QueueKey, figures: &QueueFigures) {
        let label = self.queue_labels.get(&key).unwrap_or(&self.other);
        let tasks = self.labelled.queues.entry(Arc::clone(label)).or_default();
        for (count, status) in tasks.iter_mut().zip(Status::ALL) {
            *count += figures.tasks(status);
        }
        for (route, of_route) in figures.routes() {
            let route = self.names.see(route).unwrap_or_else(|| Arc::clone(&self.other));
            self.labelled.routes.entry((Arc::clone(label), route)).or_default().merge(of_route);
        }
        if figures.left_out().routes > 0 {
            let rest = (Arc::clone(label), Arc::clone(&self.other));
            self.labelled.routes.entry(rest).or_default().merge(&figures.left_out().sum);
        }
    }

    /// The figures by label, and the names that routes have from now on.
    pub(crate) fn finish(mut self) -> (LabelledFigures, RouteNames) {
        self.names.give_places();
        let mut labelled = LabelledFigures { queues: self.labelled.queues, ..LabelledFigures::default() };
        for ((queue, route), figures) in self.labelled.routes {
            let route = if self.names.last_seen.contains_key(&route) { route } else { Arc::clone(&self.other) };
            labelled.routes.entry((queue, route)).or_default().merge(&figures);
        }
        (labelled, self.names)
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::time::Timestamp;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    type Queue<'q> = (i64, String, Vec<(&'q str, u64)>);

    /// What is shown of queues. Each tells as many of its routes as it is asked for.
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
        assert_eq!(labelled.queues["q99"][Status::Pending as usize], 2);
        assert_eq!(labelled.queues[OTHER][Status::Pending as usize], 100);
        let other = labelled.routes[&(OTHER.into(), "r".into())];
        assert_eq!((other.pending, other.oldest_pending), (100, Some(at(100))));
    }

    #[test]
    fn a_queue_that_is_called_other_has_no_second_series() {
        let mut queues: Vec<_> = (0..100).map(|key| (key, format!("q{key}"), vec![])).collect();
        queues[7] = (7, OTHER.to_owned(), vec![("r", 1)]);
        queues.push((200, "last".to_owned(), vec![("r", 5)]));
        let (labelled, _) = labelled(&queues, RouteNames::default());
        assert_eq!(labelled.queues.len(), NAMED_MAX);
        assert_eq!(labelled.queues[OTHER][Status::Pending as usize], 6);
    }

    #[test]
    fn a_route_keeps_its_name_while_it_is_in_use() {
        let routes: Vec<String> = (0..200).map(|n| format!("r{n:03}")).collect();
        let mut names = RouteNames::default();
        let mut update = |in_use: std::ops::Range<usize>| {
            let in_use: Vec<_> = routes[in_use].iter().map(|route| (route.as_str(), 1)).collect();
            let (labelled, updated) = labelled(&[(1, "q".to_owned(), in_use.clone())], names.clone());
            names = updated;
            let pending: u64 = labelled.routes.values().map(|route| route.pending).sum();
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
        assert_eq!(first.routes[&("q7".into(), OTHER.into())].pending, 400);
        let (again, _) = labelled(&queues, names);
        let pending = |figures: &LabelledFigures| -> Vec<_> {
            figures.routes.iter().map(|(labels, route)| (labels.clone(), route.pending)).collect()
        };
        assert_eq!(pending(&again), pending(&first));
    }
}
