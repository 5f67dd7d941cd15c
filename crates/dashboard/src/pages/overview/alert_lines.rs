//! The few lines that the overview begins with: one for what concerns the server, one for routes without a worker, one for runs that
//! fail. Several alerts of a kind are one line that counts them and can be unfolded.

use super::alert::Alert;
use crate::attention::Concern;
use crate::shared_figures::ROUTES_TOLD;
use crate::show;

/// Alerts that a line unfolds: as many as the routes of one queue may need.
const ALERTS: usize = ROUTES_TOLD;

/// The alerts of the overview, by what they concern.
#[derive(Default)]
pub(crate) struct Alerts {
    server: Kind,
    routes: Kind,
    runs: Kind,
    sums: Sums,
}

/// What the alerts about runs say together.
#[derive(Default)]
struct Sums {
    failed: u64,
    ended: u64,
    expired: u64,
    last_attempts: u64,
}

/// The alerts of one kind. More than are shown are counted.
#[derive(Default)]
struct Kind {
    alerts: Vec<Alert>,
    count: u64,
    /// How many queues have one. They come queue by queue.
    queues: u64,
    /// The last of these.
    queue: String,
}

/// A line of the overview.
pub(crate) struct Line {
    /// Names it among others, so that it stays in its place, unfolded or not.
    pub(crate) key: &'static str,
    pub(crate) is_warning: bool,
    pub(crate) subject: String,
    pub(crate) text: String,
    pub(crate) alerts: Vec<Alert>,
    /// How many more there are.
    pub(crate) more: u64,
}

impl Alerts {
    pub(crate) fn add(&mut self, concern: &Concern) {
        let kind = match concern {
            Concern::StorageFails | Concern::WritesPileUp { .. } | Concern::WaitingIsFull { .. } | Concern::Risk(_) => {
                &mut self.server
            }
            Concern::Starving { queue, .. } => self.routes.of(queue),
            Concern::Failing { queue, failed, ended, .. } => {
                self.sums.failed += failed;
                self.sums.ended += ended;
                self.runs.of(queue)
            }
            Concern::Lost { queue, expired } => {
                self.sums.expired += expired;
                self.runs.of(queue)
            }
            Concern::LastAttempt { queue, tasks, .. } => {
                self.sums.last_attempts += *tasks as u64;
                self.runs.of(queue)
            }
        };
        kind.add(Alert::of(concern));
    }

    /// So many more routes without a worker, which nothing is known of.
    pub(crate) fn add_untold(&mut self, routes: u64) {
        self.routes.count += routes;
    }

    /// What is worse first. At most one line for each kind.
    pub(crate) fn lines(self) -> Vec<Line> {
        let Self { server, routes, runs, sums } = self;
        let of_server = format!("{} need attention.", show::count(server.count, "thing"));
        let of_routes = format!("{} have tasks and no worker.", show::count(routes.count, "route"));
        let (of_some, of_others) = (routes.subject(), runs.subject());
        let mut lines: Vec<Line> = [
            server.line("server", "Server".to_owned(), of_server),
            routes.line("routes", of_some, of_routes),
            runs.line("runs", of_others, sums.text()),
        ]
        .into_iter()
        .flatten()
        .collect();
        lines.sort_by_key(|line| line.is_warning);
        lines
    }
}

impl Kind {
    /// The alerts of this kind, of a queue.
    fn of(&mut self, queue: &str) -> &mut Self {
        if self.queues == 0 || self.queue != queue {
            self.queues += 1;
            queue.clone_into(&mut self.queue);
        }
        self
    }

    fn add(&mut self, alert: Alert) {
        if self.alerts.len() < ALERTS {
            self.alerts.push(alert);
        }
        self.count += 1;
    }

    /// The queue, or how many.
    fn subject(&self) -> String {
        if self.queues == 1 { self.queue.clone() } else { show::count(self.queues, "queue") }
    }

    /// The line, if there is anything to say.
    fn line(self, key: &'static str, subject: String, text: String) -> Option<Line> {
        let more = self.count - self.alerts.len() as u64;
        let is_warning = self.alerts.iter().all(|alert| alert.is_warning);
        (self.count > 0).then_some(Line { key, is_warning, subject, text, alerts: self.alerts, more })
    }
}

impl Sums {
    fn text(&self) -> String {
        let Self { failed, ended, expired, last_attempts } = *self;
        let has = if last_attempts == 1 { "has" } else { "have" };
        let failed = (failed > 0)
            .then(|| format!("{} of {} of the last hour failed", show::number(failed), show::count(ended, "run")));
        let lost = (expired > 0).then(|| format!("{} lost the worker", show::count(expired, "run")));
        let near = (last_attempts > 0)
            .then(|| format!("{} {has} one attempt left or are in the last one", show::count(last_attempts, "task")));
        let parts: Vec<String> = [failed, lost, near].into_iter().flatten().collect();
        format!("{}.", parts.join(", "))
    }
}

impl Line {
    /// The alert, if it is the only one: then it is the line.
    pub(crate) fn alone(&self) -> Option<&Alert> {
        match (self.alerts.as_slice(), self.more) {
            ([alert], 0) => Some(alert),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::time::Timestamp;

    use super::*;
    use crate::attention::Newest;

    fn starving(queue: &str, route: usize) -> Concern {
        Concern::Starving { queue: queue.to_owned(), route: format!("r{route}"), pending: 1, oldest: None }
    }

    fn lines(concerns: &[Concern]) -> Vec<Line> {
        let mut alerts = Alerts::default();
        concerns.iter().for_each(|concern| alerts.add(concern));
        alerts.lines()
    }

    #[test]
    fn routes_without_a_worker_are_one_line_that_unfolds_the_first_ones() {
        let of_one: Vec<Concern> = (0..6).map(|route| starving("q", route)).collect();
        let told = lines(&of_one);
        let [line] = told.as_slice() else { panic!("{} lines", told.len()) };
        assert_eq!((line.subject.as_str(), line.text.as_str()), ("q", "6 routes have tasks and no worker."));
        assert_eq!((line.alerts.len(), line.more, line.alone().is_some(), line.is_warning), (6, 0, false, false));
        let mut alerts = Alerts::default();
        of_one.iter().chain(&[starving("r", 0), starving("r", 1), starving("s", 0)]).for_each(|one| alerts.add(one));
        alerts.add_untold(1_000);
        let told = alerts.lines();
        assert_eq!(
            (told[0].subject.as_str(), told[0].text.as_str()),
            ("3 queues", "1,009 routes have tasks and no worker.")
        );
        assert_eq!((told[0].alerts.len(), told[0].more), (ALERTS, 1_009 - ALERTS as u64));
        assert_eq!(lines(&[starving("q", 7)])[0].alone().map(|alert| alert.subject.as_str()), Some("q · r7"));
        assert!(lines(&[]).is_empty());
    }

    #[test]
    fn whatever_is_wrong_takes_three_lines_and_what_is_worse_comes_first() {
        let (queue, newest) = (|| "q".to_owned(), Newest::default());
        let failing =
            Concern::Failing { queue: queue(), now: Timestamp::from_micros(0), failed: 184, ended: 686, newest };
        let all = [
            Concern::Risk("fsync is off.".to_owned()),
            Concern::WaitingIsFull { limit: 7 },
            failing,
            Concern::Lost { queue: queue(), expired: 1 },
            Concern::LastAttempt { queue: queue(), tasks: 2, looked_at: 30 },
            starving("q", 0),
            starving("q", 1),
        ];
        let told = lines(&all);
        let texts: Vec<(&str, &str, bool)> =
            told.iter().map(|line| (line.key, line.text.as_str(), line.is_warning)).collect();
        let runs = "184 of 686 runs of the last hour failed, 1 run lost the worker, 2 tasks have one attempt left or are in the last one.";
        let expected = [
            ("routes", "2 routes have tasks and no worker.", false),
            ("server", "2 things need attention.", true),
            ("runs", runs, true),
        ];
        assert_eq!(texts, expected);
        let broken = lines(&[Concern::Risk("r".to_owned()), Concern::StorageFails, starving("q", 0)]);
        assert_eq!(broken.iter().map(|line| line.key).collect::<Vec<_>>(), ["server", "routes"]);
    }
}
