//! What an alert says about a concern, and where it leads. How alerts become a few lines is in `alert_lines.rs`.

use taskqueue_core::activity::{Span, Unit};
use taskqueue_core::dependency::DEPENDENCY_FAILED;
use taskqueue_core::lease::HEARTBEAT_TIMEOUT;
use taskqueue_core::time::Timestamp;

use crate::address::Query;
use crate::attention::{Concern, Newest};
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
        match concern {
            Concern::StorageFails => {
                let text = "It does not work: tasks are neither taken nor changed. The log of the server says why.";
                server("Database", false, text.to_owned())
            }
            Concern::WritesPileUp { queued, capacity } => {
                let text = format!("It is slow: {queued} of at most {capacity} writes wait for it.");
                server("Database", true, text)
            }
            Concern::WaitingIsFull { limit } => {
                let text =
                    format!("{limit} requests wait for something, no more may. Workers have to ask again and again.");
                server("Server", true, text)
            }
            Concern::Risk(sentence) => server("Database", true, sentence.clone()),
            Concern::Starving { queue, route, pending, oldest } => {
                let wait = if *pending == 1 { "waits" } else { "wait" };
                let since =
                    oldest.map_or(String::new(), |oldest| format!(", the oldest for {}", show::duration(oldest)));
                let text = format!("{} {wait} and no worker serves this route{since}.", show::count(*pending, "task"));
                let filter = format!("\"{route}\" in routes");
                let link = Query::default().and("status", "pending").and("filter", filter).at(&tasks(queue));
                of_queue(format!("starving {queue} {route}"), false, format!("{queue} · {route}"), text)
                    .leading(link, "Show them")
            }
            Concern::Failing { queue, now, failed, ended, newest } => {
                let text =
                    format!("{} of {} of the last hour failed", show::number(*failed), show::count(*ended, "run"));
                of_queue(format!("failing {queue}"), true, queue.clone(), text)
                    .quoting(newest)
                    .leading(reported_failures(queue, *now), "Show what failed")
            }
            Concern::Lost { queue, expired } => {
                let text = format!(
                    "{} of the last hour ended because the worker was not heard of any more.",
                    show::count(*expired, "run")
                );
                of_queue(format!("lost {queue}"), true, queue.clone(), text)
                    .leading(format!("/ui/queues/{queue}/workers"), "Show workers")
            }
            Concern::LastAttempt { queue, tasks: near, looked_at } => {
                let have = if *near == 1 { "has" } else { "have" };
                let text = format!(
                    "{near} of the newest {looked_at} tasks to do {have} one attempt left, or are in the last one."
                );
                let link = Query::default().and("filter", LAST_ATTEMPTS).at(&tasks(queue));
                of_queue(format!("attempts {queue}"), true, queue.clone(), text)
                    .leading(link, "Show tasks that were tried")
            }
        }
    }

    fn leading(self, link: String, link_text: &'static str) -> Self {
        Self { link, link_text, ..self }
    }

    /// What the newest failures have in common.
    fn quoting(self, Newest { looked_at, route, message }: &Newest) -> Self {
        let place = route.as_ref().map(|route| format!(", the newest {looked_at} on route {route}"));
        let said = message.as_ref().map(|(_, times)| match (times == looked_at, &place) {
            (true, None) => format!(", the newest {looked_at} with"),
            (true, Some(_)) => " with".to_owned(),
            (false, None) => format!(", {times} of the newest {looked_at} with"),
            (false, Some(_)) => format!(", {times} of these with"),
        });
        let (place, said) = (place.unwrap_or_default(), said.unwrap_or_else(|| ".".to_owned()));
        let quote = message.as_ref().map(|(message, _)| message.clone());
        Self { text: format!("{}{place}{said}", self.text), quote, ..self }
    }
}

/// What the filter language can say about it: it compares with constants only.
const LAST_ATTEMPTS: &str = "status in [\"pending\", \"running\"] and attempt > 0";

/// The tasks of which a run failed or was lost in the last hour, also those that succeeded later: a task keeps its last error.
pub(super) fn failures(queue: &str, now: Timestamp) -> String {
    // An error of that type is of no run.
    with_error_of_last_hour(queue, now, &[DEPENDENCY_FAILED])
}

/// The same without runs whose worker was not heard of any more: of these another alert tells.
fn reported_failures(queue: &str, now: Timestamp) -> String {
    with_error_of_last_hour(queue, now, &[DEPENDENCY_FAILED, HEARTBEAT_TIMEOUT])
}

fn with_error_of_last_hour(queue: &str, now: Timestamp, but_for: &[&str]) -> String {
    let since = Span::of(Unit::Minute, now.plus_seconds(-Unit::Hour.seconds())).start;
    let mut filter = format!("last_error.occurred_at >= \"{since}\"");
    for kind in but_for {
        filter += &format!(" and last_error.type != \"{kind}\"");
    }
    Query::default().and("filter", filter).at(&tasks(queue))
}

fn tasks(queue: &str) -> String {
    format!("/ui/queues/{queue}/tasks")
}

fn server(subject: &str, is_warning: bool, text: String) -> Alert {
    of_queue(format!("server {text}"), is_warning, subject.to_owned(), text).leading("/ui/system".to_owned(), "System")
}

fn of_queue(key: String, is_warning: bool, subject: String, text: String) -> Alert {
    Alert { key, is_warning, subject, text, quote: None, link: String::new(), link_text: "" }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taskqueue_core::filter::TaskFilter;

    use super::*;

    #[test]
    fn an_alert_says_what_is_the_matter_and_leads_to_where_it_is_seen() {
        let queue = || "q".to_owned();
        let starving = |pending, oldest| Concern::Starving { queue: queue(), route: "gpu".to_owned(), pending, oldest };
        let waiting = "/ui/queues/q/tasks?status=pending&filter=%22gpu%22%20in%20routes";
        let cases = [
            (Concern::StorageFails, "It does not work: tasks are", "/ui/system"),
            (
                Concern::WritesPileUp { queued: 9, capacity: 10 },
                "It is slow: 9 of at most 10 writes wait",
                "/ui/system",
            ),
            (Concern::WaitingIsFull { limit: 7 }, "7 requests wait for something", "/ui/system"),
            (Concern::Risk("fsync is off.".to_owned()), "fsync is off.", "/ui/system"),
            (starving(1, None), "1 task waits and no worker serves this route.", waiting),
            (
                starving(2, Some(Duration::from_secs(180))),
                "2 tasks wait and no worker serves this route, the oldest for 3 min.",
                waiting,
            ),
            (
                Concern::Lost { queue: queue(), expired: 2 },
                "2 runs of the last hour ended because",
                "/ui/queues/q/workers",
            ),
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
        assert_eq!(failures("q", now), Query::default().and("filter", filter).at("/ui/queues/q/tasks"));
    }

    /// The alert counts runs that failed; those that were lost are counted by an alert of their own.
    #[test]
    fn the_alert_of_failed_runs_leads_to_none_that_was_lost() {
        let now = Timestamp::from_micros(7_265_000_000);
        let filter = "last_error.occurred_at >= \"1970-01-01T01:01:00.000000Z\" \
            and last_error.type != \"DependencyFailed\" and last_error.type != \"HeartbeatTimeout\"";
        assert!(TaskFilter::parse(filter).is_ok());
        let newest = Newest::default();
        let failing = Concern::Failing { queue: "q".to_owned(), now, failed: 4, ended: 38, newest };
        assert_eq!(Alert::of(&failing).link, Query::default().and("filter", filter).at("/ui/queues/q/tasks"));
    }

    #[test]
    fn what_the_newest_failures_share_is_said_in_a_sentence() {
        let told = |route: Option<&str>, times: Option<usize>| {
            let message = times.map(|times| ("oom".to_owned(), times));
            let newest = Newest { looked_at: 4, route: route.map(str::to_owned), message };
            let alert = Alert::of(&Concern::Failing {
                queue: "q".to_owned(),
                now: Timestamp::from_micros(0),
                failed: 4,
                ended: 38,
                newest,
            });
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
}
