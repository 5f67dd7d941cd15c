//! All queues at one glance: what needs attention, and a card for each queue. What is read for it is in `overview/reading.rs`, what
//! a card says in `overview/card.rs`, what alerts say in `overview/alerts.rs`; what needs attention is decided in `attention.rs`.

mod alerts;
mod card;
mod reading;

use askama::Template;
use taskqueue_core::access::Scope;
use taskqueue_core::shell::shell_word;
use taskqueue_core::status::Status;
use taskqueue_core::time::Timestamp;

use self::alerts::AlertLine;
use self::card::{Card, Outlook};
use self::reading::{CARDS, Lately, Reading};
use crate::attention;
use crate::layout::{self, PageResult, Section, Shell};
use crate::shared_figures::all_tasks;
use crate::show::command::CommandLine;
use crate::show::{self, Moment, Spark};
use crate::visit::Visit;

/// With more queues than this there is a field to find one.
const FIND_FROM: usize = 12;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    shell: Shell,
    /// What was looked for in the names of queues.
    find: String,
    has_find: bool,
    may_create: bool,
    submit: Option<String>,
    /// Whether there is any queue that the viewer may see.
    has_queues: bool,
    /// What needs attention.
    lines: Vec<AlertLine>,
    cards: Vec<Card>,
    rows: Vec<Card>,
    left_out: usize,
    now: Timestamp,
    /// The commands that a new user copies, with what they do.
    start: [(&'static str, String); 3],
}

/// The page.
pub(crate) async fn overview(visit: Visit) -> PageResult {
    let find = visit.find();
    let Reading { now, queues, left_out, alerts, seen } = reading::read(&visit, &find).await?;
    let mut cards: Vec<Card> = queues.into_iter().map(|queue| Card::of(queue, &visit)).collect();
    let rows = cards.split_off(cards.len().min(CARDS));
    let shell = Shell::new(&visit, "Overview", Section::Overview, None).await?;
    let submit = shell.entries.iter().find(|entry| entry.section == Section::Submit).map(|entry| entry.path.clone());
    let page = OverviewPage {
        has_find: seen > FIND_FROM || !find.is_empty(),
        may_create: visit.may_somewhere(Scope::Admin),
        has_queues: seen > 0,
        start: first_commands(&visit.server_url()),
        now,
        shell,
        find,
        submit,
        lines: alerts.lines(),
        cards,
        rows,
        left_out,
    };
    layout::page(&visit, &page)
}

fn first_commands(url: &str) -> [(&'static str, String); 3] {
    let queue = "experiments";
    let submit = CommandLine::new("task submit", queue, url).flag("--name", "hello").flag("--arg", "seed=1");
    let work = CommandLine::new("loop", queue, url).running("echo 'the seed is %{seed}'");
    [
        ("Create a queue", format!("taskqueue queue create {queue} --url {}", shell_word(url))),
        ("Submit a task", submit.to_string()),
        ("Run a worker", work.to_string()),
    ]
}
