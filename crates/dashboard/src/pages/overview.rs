//! All queues at one glance: what needs attention, and a card for each queue. What is read for it is in `overview/reading.rs`, what
//! a card says in `overview/card.rs`, what alerts say in `overview/alerts.rs`; what needs attention is decided in `attention.rs`.

mod alerts;
mod card;
mod reading;

use askama::Template;
use taskqueue_core::access::Scope;
use taskqueue_core::shell::shell_word;

use self::alerts::AlertLine;
use self::card::Card;
use self::reading::{Reading, ReadingLimits};
use crate::layout::{self, PageResult, Section, Shell};
use crate::show::command::CommandLine;
use crate::visit::Visit;

/// Queues that have a card with their activity. More are rows of a table, without activity.
const CARDS: usize = 50;
/// Rows of that table.
const ROWS: usize = 1_000;
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
    /// The commands that a new user copies.
    start: Start,
}

/// How to begin, as commands.
struct Start {
    create: String,
    submit: String,
    work: String,
}

impl Start {
    const QUEUE: &str = "experiments";

    fn new(url: &str) -> Self {
        let submit = CommandLine::new("task submit", Self::QUEUE, url).flag("--name", "hello").flag("--arg", "seed=1");
        let work = CommandLine::new("loop", Self::QUEUE, url).running("echo 'the seed is %{seed}'");
        Self {
            create: format!("taskqueue queue create {} --url {}", Self::QUEUE, shell_word(url)),
            submit: submit.to_string(),
            work: work.to_string(),
        }
    }
}

/// The page.
pub(crate) async fn overview(visit: Visit) -> PageResult {
    let find = visit.find();
    let Reading { now, queues, left_out, alerts, seen } =
        reading::read(&visit, &find, ReadingLimits { with_activity: CARDS, shown: CARDS + ROWS }).await?;
    let mut cards: Vec<Card> = queues.iter().map(|queue| Card::of(queue, now, &visit)).collect();
    let rows = cards.split_off(cards.len().min(CARDS));
    let shell = Shell::new(&visit, "Overview", Section::Overview, None).await?;
    let submit = shell.entries.iter().find(|entry| entry.section == Section::Submit).map(|entry| entry.path.clone());
    let page = OverviewPage {
        has_find: seen > FIND_FROM || !find.is_empty(),
        may_create: visit.may_somewhere(Scope::Admin),
        has_queues: seen > 0,
        start: Start::new(&visit.server_url()),
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
