//! What an alert says about a concern, and where it leads; and the few lines that the overview begins with: one for what concerns the
//! server, one for routes without a worker, one for runs that fail. Several alerts of a kind are one line that counts them and can be
//! unfolded.

use taskqueue_core::Timestamp;
use taskqueue_core::activity::{Span, Unit};
use taskqueue_core::dependency::DEPENDENCY_FAILED;
use taskqueue_core::lease::HEARTBEAT_TIMEOUT;

use crate::address::{Query, of_route, of_tasks};
use crate::attention::{Concern, FailurePattern};
use crate::shared_figures::ROUTES_TOLD;
use crate::show;

/// An alert of the overview.
pub(crate) struct Alert {
    /// Names it among others, so that it stays in its place.
    pub(crate) key: String,
    pub(crate) is_warning: bool,
    /// What it is about.
    pub(crate) subject: String,
    pub(crate) text: String,
    /// What a program said.
    pub(crate) quote: Option<String>,
    pub(crate) link: String,
    pub(crate) link_text: &'static str,
}

impl Alert {
    pub(crate) fn of(concern: &Concern) -> Self {
        let of_server = |subject: &str, is_warning: bool, text: String| {
            (format!("server {text}"), is_warning, subject.to_owned(), text, "/ui/system".to_owned(), "System")
        };
        let mut quote = None;
        let (key, is_warning, subject, text, link, link_text) = match concern {
            Concern::StorageFails => {
                let text = "It does not work: tasks are neither taken nor changed. The log of the server says why.";
                of_server("Database", false, text.to_owned())
            }
            Concern::WritesPileUp { queued, capacity } => {
                let text = format!("It is slow: {queued} of at most {capacity} writes wait for it.");
                of_server("Database", true, text)
            }
            Concern::WaitingIsFull { limit } => {
                let text =
                    format!("{limit} requests wait for something, no more may. Workers have to ask again and again.");
                of_server("Server", true, text)
            }
            Concern::Risk(sentence) => of_server("Database", true, sentence.clone()),
            Concern::Starving { queue, route, pending, oldest } => {
                let wait = if *pending == 1 { "waits" } else { "wait" };
                let since =
                    oldest.map_or(String::new(), |oldest| format!(", the oldest for {}", show::duration(oldest)));
                let text = format!("{} {wait} and no worker serves this route{since}.", show::count(*pending, "task"));
                let (key, subject) = (format!("starving {queue} {route}"), format!("{queue} · {route}"));
                (key, false, subject, text, of_route(queue, route, "pending"), "Show them")
            }
            Concern::Failing { queue, now, failed, ended, newest } => {
                let (failed, ended, shared) = (show::number(*failed), show::count(*ended, "run"), shared(newest));
                let text = format!("{failed} of {ended} of the last hour failed{shared}");
                quote = newest.message.as_ref().map(|(message, _)| message.clone());
                // Of runs whose worker was not heard of any more another alert tells.
                let link = with_error_of_last_hour(queue, *now, &[DEPENDENCY_FAILED, HEARTBEAT_TIMEOUT]);
                (format!("failing {queue}"), true, queue.clone(), text, link, "Show what failed")
            }
            Concern::Lost { queue, expired } => {
                let runs = show::count(*expired, "run");
                let text = format!("{runs} of the last hour ended because the worker was not heard of any more.");
                let link = format!("/ui/queues/{queue}/workers");
                (format!("lost {queue}"), true, queue.clone(), text, link, "Show workers")
            }
            Concern::LastAttempt { queue, tasks: near, looked_at } => {
                let have = if *near == 1 { "has" } else { "have" };
                let text = format!(
                    "{near} of the newest {looked_at} tasks to do {have} one attempt left, or are in the last one."
                );
                let link = Query::default().and("filter", LAST_ATTEMPTS).at(&of_tasks(queue));
                (format!("attempts {queue}"), true, queue.clone(), text, link, "Show tasks that were tried")
            }
        };
        Self { key, is_warning, subject, text, quote, link, link_text }
    }
}

/// Returns how a sentence about failures ends, with what the newest ones have in common; the message of most is quoted behind it.
fn shared(FailurePattern { looked_at, route, message }: &FailurePattern) -> String {
    let place = route.as_ref().map(|route| format!(", the newest {looked_at} on route {route}"));
    let said = message.as_ref().map(|(_, times)| match (times == looked_at, &place) {
        (true, None) => format!(", the newest {looked_at} with"),
        (true, Some(_)) => " with".to_owned(),
        (false, None) => format!(", {times} of the newest {looked_at} with"),
        (false, Some(_)) => format!(", {times} of these with"),
    });
    format!("{}{}", place.unwrap_or_default(), said.unwrap_or_else(|| ".".to_owned()))
}

/// What the filter language can say about it: it compares with constants only.
const LAST_ATTEMPTS: &str = "status in [\"pending\", \"running\"] and attempt > 0";

/// The tasks of which a run failed or was lost in the last hour, also those that succeeded later: a task keeps its last error.
pub(super) fn failures_address(queue: &str, now: Timestamp) -> String {
    // An error of that type is of no run.
    with_error_of_last_hour(queue, now, &[DEPENDENCY_FAILED])
}

fn with_error_of_last_hour(queue: &str, now: Timestamp, but_for: &[&str]) -> String {
    let since = Span::of(Unit::Minute, now.plus_seconds(-Unit::Hour.seconds())).start;
    let mut filter = format!("last_error.occurred_at >= \"{since}\"");
    for kind in but_for {
        filter += &format!(" and last_error.type != \"{kind}\"");
    }
    Query::default().and("filter", filter).at(&of_tasks(queue))
}

/// Alerts that a line unfolds: as many as the routes of one queue may need.
const ALERTS_SHOWN: usize = ROUTES_TOLD;

/// The alerts of the overview: a line for what concerns the server, one for routes, one for runs.
pub(crate) struct Alerts([AlertLine; 3]);

/// A line of the overview: the alerts of one kind. More than are shown are counted.
#[derive(Default)]
pub(crate) struct AlertLine {
    /// Names it among others, so that it stays in its place, unfolded or not.
    pub(crate) key: &'static str,
    pub(crate) alerts: Vec<Alert>,
    count: u64,
    /// How many queues have one. They come queue by queue.
    queues: u64,
    /// The last of these.
    queue: String,
    sums: RunSums,
}

/// What the alerts about runs say together.
#[derive(Default)]
struct RunSums {
    failed: u64,
    ended: u64,
    expired: u64,
    last_attempts: u64,
}

impl Default for Alerts {
    fn default() -> Self {
        Self(["server", "routes", "runs"].map(|key| AlertLine { key, ..AlertLine::default() }))
    }
}

impl Alerts {
    pub(crate) fn add(&mut self, concern: &Concern) {
        let Self([server, routes, runs]) = self;
        let (line, queue) = match concern {
            Concern::StorageFails | Concern::WritesPileUp { .. } | Concern::WaitingIsFull { .. } | Concern::Risk(_) => {
                (server, "")
            }
            Concern::Starving { queue, .. } => (routes, queue.as_str()),
            Concern::Failing { queue, .. } | Concern::Lost { queue, .. } | Concern::LastAttempt { queue, .. } => {
                runs.sums.add(concern);
                (runs, queue.as_str())
            }
        };
        if line.queues == 0 || line.queue != queue {
            line.queues += 1;
            queue.clone_into(&mut line.queue);
        }
        if line.alerts.len() < ALERTS_SHOWN {
            line.alerts.push(Alert::of(concern));
        }
        line.count += 1;
    }

    /// So many more routes without a worker, which nothing is known of.
    pub(crate) fn add_untold(&mut self, routes: u64) {
        self.0[1].count += routes;
    }

    /// Returns the lines that have something to say, what is worse first.
    pub(crate) fn lines(self) -> Vec<AlertLine> {
        let mut lines: Vec<AlertLine> = self.0.into_iter().filter(|line| line.count > 0).collect();
        lines.sort_by_key(AlertLine::is_warning);
        lines
    }
}

impl AlertLine {
    pub(crate) fn is_warning(&self) -> bool {
        self.alerts.iter().all(|alert| alert.is_warning)
    }

    /// What it is about: the server, the queue, or how many.
    pub(crate) fn subject(&self) -> String {
        match (self.key, self.queues) {
            ("server", _) => "Server".to_owned(),
            (_, 1) => self.queue.clone(),
            (_, queues) => show::count(queues, "queue"),
        }
    }

    pub(crate) fn text(&self) -> String {
        match self.key {
            "server" => format!("{} need attention.", show::count(self.count, "thing")),
            "routes" => format!("{} have tasks and no worker.", show::count(self.count, "route")),
            _ => self.sums.text(),
        }
    }

    /// How many more there are.
    pub(crate) fn more(&self) -> u64 {
        self.count - self.alerts.len() as u64
    }

    /// The alert, if it is the only one: then it is the line.
    pub(crate) fn alone(&self) -> Option<&Alert> {
        self.alerts.first().filter(|_| self.count == 1)
    }
}

impl RunSums {
    fn add(&mut self, concern: &Concern) {
        match concern {
            Concern::Failing { failed, ended, .. } => {
                self.failed += failed;
                self.ended += ended;
            }
            Concern::Lost { expired, .. } => self.expired += expired,
            Concern::LastAttempt { tasks, .. } => self.last_attempts += *tasks as u64,
            _ => {}
        }
    }

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taskqueue_core::filter::TaskFilter;
    use taskqueue_core::time::Timestamp;

    use super::*;
    use crate::attention::FailurePattern;

    #[test]
    fn an_alert_says_what_is_the_matter_and_leads_to_where_it_is_seen() {
        let queue = || "q".to_owned();
        let starving = |pending, oldest| Concern::Starving { queue: queue(), route: "gpu".to_owned(), pending, oldest };
        let waiting = "/ui/queues/q/tasks?status=pending&filter=%22gpu%22%20in%20routes";
        let (system, workers, oldest) = ("/ui/system", "/ui/queues/q/workers", Some(Duration::from_secs(180)));
        let cases = [
            (Concern::StorageFails, "It does not work: tasks are", system),
            (Concern::WritesPileUp { queued: 9, capacity: 10 }, "It is slow: 9 of at most 10 writes wait", system),
            (Concern::WaitingIsFull { limit: 7 }, "7 requests wait for something", system),
            (Concern::Risk("fsync is off.".to_owned()), "fsync is off.", system),
            (starving(1, None), "1 task waits and no worker serves this route.", waiting),
            (starving(2, oldest), "2 tasks wait and no worker serves this route, the oldest for 3 min.", waiting),
            (Concern::Lost { queue: queue(), expired: 2 }, "2 runs of the last hour ended because", workers),
        ];
        for (concern, text, link) in cases {
            let alert = Alert::of(&concern);
            assert!(alert.text.starts_with(text), "{}", alert.text);
            assert_eq!(alert.link, link);
        }
    }

    #[test]
    fn what_failed_is_found_also_if_it_succeeded_later_and_nothing_that_had_no_run() {
        let now = Timestamp::from_micros(7_265_000_000);
        let filter =
            "last_error.occurred_at >= \"1970-01-01T01:01:00.000000Z\" and last_error.type != \"DependencyFailed\"";
        assert!(TaskFilter::parse(filter).is_ok());
        assert_eq!(failures_address("q", now), Query::default().and("filter", filter).at("/ui/queues/q/tasks"));
    }

    /// The alert counts runs that failed; those that were lost are counted by an alert of their own.
    #[test]
    fn the_alert_of_failed_runs_leads_to_none_that_was_lost() {
        let now = Timestamp::from_micros(7_265_000_000);
        let filter = "last_error.occurred_at >= \"1970-01-01T01:01:00.000000Z\" \
            and last_error.type != \"DependencyFailed\" and last_error.type != \"HeartbeatTimeout\"";
        assert!(TaskFilter::parse(filter).is_ok());
        let newest = FailurePattern::default();
        let failing = Concern::Failing { queue: "q".to_owned(), now, failed: 4, ended: 38, newest };
        assert_eq!(Alert::of(&failing).link, Query::default().and("filter", filter).at("/ui/queues/q/tasks"));
    }

    #[test]
    fn what_the_newest_failures_share_is_said_in_a_sentence() {
        let told = |route: Option<&str>, times: Option<usize>| {
            let message = times.map(|times| ("oom".to_owned(), times));
            let newest = FailurePattern { looked_at: 4, route: route.map(str::to_owned), message };
            let now = Timestamp::from_micros(0);
            let alert = Alert::of(&Concern::Failing { queue: "q".to_owned(), now, failed: 4, ended: 38, newest });
            assert_eq!(alert.quote.is_some(), times.is_some());
            alert.text.replace("4 of 38 runs of the last hour failed", "F")
        };
        let cases = [
            (None, None, "F."),
            (None, Some(4), "F, the newest 4 with"),
            (None, Some(3), "F, 3 of the newest 4 with"),
            (Some("a100"), None, "F, the newest 4 on route a100."),
            (Some("a100"), Some(4), "F, the newest 4 on route a100 with"),
            (Some("a100"), Some(3), "F, the newest 4 on route a100, 3 of these with"),
        ];
        for (route, times, text) in cases {
            assert_eq!(told(route, times), text);
        }
    }

    fn starving(queue: &str, route: usize) -> Concern {
        Concern::Starving { queue: queue.to_owned(), route: format!("r{route}"), pending: 1, oldest: None }
    }

    fn lines(concerns: &[Concern]) -> Vec<AlertLine> {
        let mut alerts = Alerts::default();
        concerns.iter().for_each(|concern| alerts.add(concern));
        alerts.lines()
    }

    #[test]
    fn routes_without_a_worker_are_one_line_that_unfolds_the_first_ones() {
        let of_one: Vec<Concern> = (0..6).map(|route| starving("q", route)).collect();
        let told = lines(&of_one);
        let [line] = told.as_slice() else { panic!("{} lines", told.len()) };
        assert_eq!((line.subject().as_str(), line.text().as_str()), ("q", "6 routes have tasks and no worker."));
        assert_eq!((line.alerts.len(), line.more(), line.alone().is_some(), line.is_warning()), (6, 0, false, false));
        let mut alerts = Alerts::default();
        of_one.iter().chain(&[starving("r", 0), starving("r", 1), starving("s", 0)]).for_each(|one| alerts.add(one));
        alerts.add_untold(1_000);
        let told = alerts.lines();
        let expected = ("3 queues", "1,009 routes have tasks and no worker.");
        assert_eq!((told[0].subject().as_str(), told[0].text().as_str()), expected);
        assert_eq!((told[0].alerts.len(), told[0].more()), (ALERTS_SHOWN, 1_009 - ALERTS_SHOWN as u64));
        assert_eq!(lines(&[starving("q", 7)])[0].alone().map(|alert| alert.subject.as_str()), Some("q · r7"));
        assert!(lines(&[]).is_empty());
    }

    #[test]
    fn whatever_is_wrong_takes_three_lines_and_what_is_worse_comes_first() {
        let (queue, newest) = (|| "q".to_owned(), FailurePattern::default());
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
        let texts: Vec<(&str, String, bool)> =
            told.iter().map(|line| (line.key, line.text(), line.is_warning())).collect();
        let runs = "184 of 686 runs of the last hour failed, 1 run lost the worker, 2 tasks have one attempt left or are in the last one.";
        let expected = [
            ("routes", "2 routes have tasks and no worker.", false),
            ("server", "2 things need attention.", true),
            ("runs", runs, true),
        ];
        assert_eq!(texts, expected.map(|(key, text, is_warning)| (key, text.to_owned(), is_warning)));
        let broken = lines(&[Concern::Risk("r".to_owned()), Concern::StorageFails, starving("q", 0)]);
        assert_eq!(broken.iter().map(|line| line.key).collect::<Vec<_>>(), ["server", "routes"]);
    }
}
