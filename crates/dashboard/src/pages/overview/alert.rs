//! What an alert says about a concern, and where it leads.

use crate::address::Query;
use crate::attention::{Concern, Repeated};
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
            Concern::Failing { queue, failed, ended, message } => {
                let text =
                    format!("{} of {} of the last hour failed", show::number(*failed), show::count(*ended, "run"));
                let link = Query::default().and("status", "failed").at(&tasks(queue));
                of_queue(format!("failing {queue}"), true, queue.clone(), text)
                    .quoting(message.as_ref())
                    .leading(link, "Show failed tasks")
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

    fn quoting(self, message: Option<&Repeated>) -> Self {
        let Some(Repeated { message, times, of }) = message else {
            return Self { text: format!("{}.", self.text), ..self };
        };
        let which = if times == of { format!("the newest {of}") } else { format!("{times} of the newest {of}") };
        Self { text: format!("{}, {which} with", self.text), quote: Some(message.clone()), ..self }
    }
}

/// What the filter language can say about it: it compares with constants only.
const LAST_ATTEMPTS: &str = "status in [\"pending\", \"running\"] and attempt > 0";

fn tasks(queue: &str) -> String {
    format!("/ui/queues/{queue}/tasks")
}

fn server(subject: &str, is_warning: bool, text: String) -> Alert {
    of_queue(format!("server {text}"), is_warning, subject.to_owned(), text).leading("/ui/system".to_owned(), "System")
}

fn of_queue(key: String, is_warning: bool, subject: String, text: String) -> Alert {
    Alert { key, is_warning, subject, text, quote: None, link: String::new(), link_text: "" }
}
