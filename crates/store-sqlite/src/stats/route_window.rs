//! The routes of a queue, some at a time in the order of their names: there may be any number of them, and what is held of them is
//! bounded. The counts of a queue are by sets of routes and in no order, so each window reads all of them.

use std::collections::BTreeMap;

use taskqueue_core::stats::{QueueFigures, RouteFigures};

/// The first routes after those that were seen.
pub(super) struct RouteWindow {
    most: usize,
    /// The last one that was seen.
    after: Option<Box<str>>,
    routes: BTreeMap<Box<str>, RouteFigures>,
    /// Whether some did not fit.
    has_more: bool,
}

impl RouteWindow {
    pub(super) fn new(most: usize) -> Self {
        Self { most, after: None, routes: BTreeMap::new(), has_more: false }
    }

    /// Adds what is counted for a route, if it is in the window.
    pub(super) fn add(&mut self, route: &str, figures: &RouteFigures) {
        if self.after.as_deref().is_some_and(|after| route <= after) {
            return;
        }
        if let Some(known) = self.routes.get_mut(route) {
            known.merge(figures);
            return;
        }
        let is_full = self.routes.len() >= self.most;
        self.has_more |= is_full;
        // What was dropped comes after the last one, and so it stays out.
        if is_full && self.routes.last_key_value().is_some_and(|(last, _)| route > &**last) {
            return;
        }
        self.routes.insert(route.into(), *figures);
        if is_full {
            self.routes.pop_last();
        }
    }

    /// Moves the routes to the figures of their queue, and says whether there are more.
    pub(super) fn move_to(&mut self, figures: &mut QueueFigures) -> bool {
        let routes = std::mem::take(&mut self.routes);
        self.after = routes.last_key_value().map(|(last, _)| last.clone());
        routes.into_iter().for_each(|(route, of_route)| figures.add_route(route, &of_route));
        std::mem::take(&mut self.has_more)
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::status::Status;

    use super::*;

    #[test]
    fn windows_of_any_size_see_each_route_once_with_all_its_counts() {
        // Each route three times, in no order.
        let counted: Vec<String> = (0..60).map(|n| format!("r{:02}", n * 7 % 20)).collect();
        for most in 1..25 {
            let (mut window, mut figures, mut windows) = (RouteWindow::new(most), QueueFigures::default(), 0);
            loop {
                for route in &counted {
                    window.add(route, &RouteFigures::of_tasks(Status::Pending, 1));
                    assert!(window.routes.len() <= most);
                }
                windows += 1;
                if !window.move_to(&mut figures) {
                    break;
                }
            }
            assert_eq!(windows, 20_usize.div_ceil(most), "{most}");
            assert_eq!(figures.routes().len(), 20);
            assert!(figures.routes().all(|(_, route)| route.pending == 3), "{most}");
        }
    }
}
