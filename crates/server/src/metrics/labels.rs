//! Which queues and routes have series of their own. There may be any number of them, and every series costs memory in each
//! monitoring system, so the rest is shown as `other`. Who has a name keeps it: series that come and go are useless.

use std::collections::BTreeMap;

use taskqueue_core::ids::QueueName;
use taskqueue_core::stats::RouteFigures;
use taskqueue_core::status::Status;
use taskqueue_store::figures::StoreFigures;
use taskqueue_store::transaction::QueueKey;

/// Queues that have series of their own, and routes.
pub(crate) const NAMED_MAX: usize = 100;

/// The label of the rest. A queue or route that is called so is shown together with it.
pub(crate) const OTHER: &str = "other";

/// The queues that have a name: those that were created first, so that it is the same for every server and after a restart.
pub(crate) fn named_queues(figures: &StoreFigures) -> BTreeMap<QueueKey, QueueName> {
    figures.queues.iter().take(NAMED_MAX).map(|queue| (queue.key, queue.queue.clone())).collect()
}

/// The routes that have a name: those that were seen first. One that is not in use loses it when another needs the place.
#[derive(Debug, Default)]
pub(crate) struct RouteNames {
    /// In which update it was last seen.
    last_seen: BTreeMap<Box<str>, u64>,
    updates: u64,
}

impl RouteNames {
    /// Takes note of the routes that are in use.
    pub(crate) fn update<'a>(&mut self, in_use: impl IntoIterator<Item = &'a str>) {
        self.updates += 1;
        let (known, new): (Vec<&str>, Vec<&str>) =
            in_use.into_iter().partition(|route| self.last_seen.contains_key(*route));
        // First all that have a place, so that none of them loses it.
        for route in known.into_iter().chain(new) {
            if self.has_place(route) {
                self.last_seen.insert(route.into(), self.updates);
            }
        }
    }

    /// Whether a route has a place, or there is one for it.
    fn has_place(&mut self, route: &str) -> bool {
        if self.last_seen.len() < NAMED_MAX || self.last_seen.contains_key(route) {
            return true;
        }
        let oldest = self.last_seen.iter().min_by_key(|(_, seen)| **seen);
        let unused = oldest.filter(|(_, seen)| **seen < self.updates).map(|(route, _)| route.clone());
        unused.is_some_and(|unused| self.last_seen.remove(&unused).is_some())
    }

    fn label<'a>(&self, route: &'a str) -> &'a str {
        if self.last_seen.contains_key(route) { route } else { OTHER }
    }
}

/// The figures of a store by label.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct LabelledFigures {
    pub(crate) queues: BTreeMap<String, [u64; Status::ALL.len()]>,
    pub(crate) routes: BTreeMap<(String, String), RouteFigures>,
}

impl LabelledFigures {
    pub(crate) fn of(figures: &StoreFigures, names: &mut RouteNames) -> Self {
        names.update(figures.queues.iter().flat_map(|queue| queue.figures.routes().map(|(route, _)| route)));
        let named = named_queues(figures);
        let mut labelled = Self::default();
        for queue in &figures.queues {
            let label = named.get(&queue.key).map_or(OTHER, QueueName::as_str);
            let tasks = labelled.queues.entry(label.to_owned()).or_default();
            for (count, status) in tasks.iter_mut().zip(Status::ALL) {
                *count += queue.figures.tasks(status);
            }
            for (route, figures) in queue.figures.routes() {
                let key = (label.to_owned(), names.label(route).to_owned());
                merge(labelled.routes.entry(key).or_default(), figures);
            }
        }
        labelled
    }
}

fn merge(sum: &mut RouteFigures, more: &RouteFigures) {
    sum.pending += more.pending;
    sum.running += more.running;
    sum.workers_idle += more.workers_idle;
    sum.workers_busy += more.workers_busy;
    sum.oldest_pending = [sum.oldest_pending, more.oldest_pending].into_iter().flatten().min();
}

#[cfg(test)]
mod tests {
    use taskqueue_core::stats::QueueFigures;
    use taskqueue_core::time::Timestamp;
    use taskqueue_store::figures::NamedFigures;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn queue(key: i64, name: &str, routes: &[(&str, u64)]) -> NamedFigures {
        let mut figures = QueueFigures::default();
        for (route, pending) in routes {
            figures.add_tasks([*route], Status::Pending, *pending);
            figures.add_pending_since(route, at(key));
        }
        NamedFigures { key: QueueKey(key), queue: QueueName::parse(name).unwrap(), figures }
    }

    fn store(queues: Vec<NamedFigures>) -> StoreFigures {
        StoreFigures { now: at(1_000), queues, database_bytes: None }
    }

    #[test]
    fn the_first_hundred_queues_have_a_name_and_the_rest_is_summed_up() {
        let queues = (0..150).map(|key| queue(key, &format!("q{key}"), &[("r", 2)])).collect();
        let labelled = LabelledFigures::of(&store(queues), &mut RouteNames::default());
        assert_eq!(labelled.queues.len(), NAMED_MAX + 1);
        assert_eq!(labelled.queues["q99"][Status::Pending as usize], 2);
        assert_eq!(labelled.queues[OTHER][Status::Pending as usize], 100);
        let other = labelled.routes[&(OTHER.to_owned(), "r".to_owned())];
        assert_eq!((other.pending, other.oldest_pending), (100, Some(at(100))));
    }

    #[test]
    fn a_queue_that_is_called_other_has_no_second_series() {
        let mut queues: Vec<_> = (0..100).map(|key| queue(key, &format!("q{key}"), &[])).collect();
        queues[7] = queue(7, OTHER, &[("r", 1)]);
        queues.push(queue(200, "last", &[("r", 5)]));
        let labelled = LabelledFigures::of(&store(queues), &mut RouteNames::default());
        assert_eq!(labelled.queues.len(), NAMED_MAX);
        assert_eq!(labelled.queues[OTHER][Status::Pending as usize], 6);
    }

    #[test]
    fn a_route_keeps_its_name_while_it_is_in_use() {
        let routes = |range: std::ops::Range<usize>| -> Vec<String> { range.map(|n| format!("r{n:03}")).collect() };
        let mut names = RouteNames::default();
        let mut update = |in_use: &[String]| {
            names.update(in_use.iter().map(String::as_str));
            in_use.iter().filter(|route| names.label(route) != OTHER).cloned().collect::<Vec<_>>()
        };
        assert_eq!(update(&routes(50..200)), routes(50..150), "the first hundred");
        assert_eq!(update(&routes(0..200)), routes(50..150), "newcomers take no place that is in use");
        assert_eq!(update(&routes(60..200)), routes(60..160), "unused places are given away");
        assert_eq!(update(&routes(0..60)), routes(0..60), "nobody else is there");
    }
}
