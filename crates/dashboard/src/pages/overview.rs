//! All queues at one glance: what needs attention, and a card for each queue, with when it will have done its work, as far as that can be
//! known. What is read for it is in `overview/reading.rs`, what alerts say in `overview/alerts.rs`; what needs attention is decided in
//! `attention.rs`.

mod alerts;
mod reading;

use std::time::Duration;

use askama::Template;
use taskqueue_core::activity::Event;
use taskqueue_core::shell::CommandLine;
use taskqueue_core::time::between;
use taskqueue_core::{QueueFigures, Route, Scope, Status, Timestamp};

use self::alerts::AlertLine;
use self::reading::{CARDS, Card, Lately, Reading};
use crate::attention;
use crate::layout::{self, PageResult, Section, Shell};
use crate::shared_figures::{all_tasks, running_of};
use crate::show::{self, Bar, Moment, Spark, command_line};
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
    let Reading { now, queues: mut cards, left_out, alerts, seen } = reading::read(&visit, &find).await?;
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
    let submit = command_line("task submit", queue, url).flag("--name", "hello").flag("--arg", "seed=1");
    let work = command_line("loop", queue, url).running("echo 'the seed is %{seed}'");
    [
        ("Create a queue", CommandLine::new("queue create").argument(queue).flag("--url", url).to_string()),
        ("Submit a task", submit.to_string()),
        ("Run a worker", work.to_string()),
    ]
}

impl Card {
    fn figures(&self) -> &QueueFigures {
        &self.shared.figures
    }

    fn bar(&self) -> Bar {
        Bar::new(|status| self.figures().tasks(status))
    }

    fn workers(&self) -> String {
        match self.figures().workers() {
            // Something runs, so somebody is there.
            [0, 0] if self.figures().tasks(Status::Running) > 0 => "no worker reports".to_owned(),
            [0, 0] => "no worker".to_owned(),
            [idle, busy] => format!("{} busy, {} idle", show::number(busy), show::number(idle)),
        }
    }

    /// Returns whether a worker is missed, and none is there at all.
    fn has_no_worker(&self) -> bool {
        let figures = self.figures();
        figures.workers() == [0, 0] && !figures.settings.paused && attention::misses_worker(figures)
    }

    /// The limits of the queue with what runs, such as `3/8 running` and `gpu at most 2`; of many routes the first ones.
    fn limits(&self) -> Vec<String> {
        let (settings, more) = (&self.figures().settings, self.shared.more_limits);
        let of_queue = settings.max_running.map(|_| format!("{} running", running_of(self.figures(), settings)));
        // How many run that were claimed for a route is in no figures: those count a task for each route that it lists.
        let of_route = |(route, most): (&Route, &u64)| format!("{route} at most {}", show::number(*most));
        let more = (more > 0).then(|| format!("{} more", show::number(more as u64)));
        of_queue.into_iter().chain(settings.route_limits.iter().map(of_route)).chain(more).collect()
    }

    /// Returns what is to be expected after what happened lately.
    fn outlook(&self, lately: &Lately, now: Timestamp) -> Option<Outlook> {
        let figures = self.figures();
        Outlook::of(&Load {
            pending: figures.tasks(Status::Pending),
            running: figures.tasks(Status::Running),
            is_served: attention::is_served(figures),
            is_paused: figures.settings.paused,
            oldest_pending: figures.oldest_pending().map(|since| between(since, now)),
            created: lately.last_5_minutes.of(Event::Created),
            ended: Pace { times: attention::ended(&lately.last_5_minutes), within: Lately::RECENT },
            ended_in_hour: Pace { times: attention::ended(&lately.last_hour), within: lately.busy_for },
        })
    }
}

/// So many ends say how fast it goes.
const ENOUGH_ENDS: u64 = 3;
/// A queue whose work lasts no longer than this, while more is submitted, keeps up.
const KEEPS_UP: Duration = Duration::from_secs(60);
/// Work that waits longer than this while nothing runs and nothing ends stands still.
const STANDS_STILL: Duration = Duration::from_secs(60);
/// What takes longer than ten years is not an estimate of anything.
const LATEST_OUTLOOK: Duration = Duration::from_secs(10 * 365 * 86_400);

/// What is left, and how fast it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    pending: u64,
    running: u64,
    /// Whether somebody is there for what waits.
    is_served: bool,
    /// Whether nothing is claimed.
    is_paused: bool,
    /// How long the task waits that has been pending longest.
    oldest_pending: Option<Duration>,
    /// Tasks that were created in the last minutes.
    created: u64,
    /// Runs that ended in the last minutes.
    ended: Pace,
    /// Runs that ended in the last hour, for queues whose runs take long.
    ended_in_hour: Pace,
}

/// How often something happened within some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pace {
    times: u64,
    within: Duration,
}

impl Pace {
    /// Returns how long so many more take; nothing if it happened too seldom to know.
    fn time_for(self, more: u64) -> Option<Duration> {
        let seconds = self.within.as_secs_f64() * more as f64 / self.times as f64;
        let is_known = self.times >= ENOUGH_ENDS && !self.within.is_zero() && seconds <= LATEST_OUTLOOK.as_secs_f64();
        is_known.then(|| Duration::from_secs_f64(seconds))
    }
}

/// What is to be expected of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outlook {
    DoneIn(Duration),
    /// More comes, and it is done as fast as it comes.
    KeepsUp,
    /// Work waits, and nothing happens.
    StandsStill,
}

impl Outlook {
    /// Nothing if there is nothing to do, or if it cannot be known.
    fn of(load: &Load) -> Option<Self> {
        let left = load.pending.saturating_add(load.running);
        if left == 0 || load.is_paused {
            return None;
        }
        let waits_long = load.oldest_pending.is_some_and(|age| age >= STANDS_STILL);
        if load.running == 0 && load.ended.times == 0 && waits_long {
            return Some(Self::StandsStill);
        }
        // How fast it went says nothing when those are gone who did it.
        if !load.is_served {
            return None;
        }
        let time = load.ended.time_for(left).or_else(|| load.ended_in_hour.time_for(left))?;
        let keeps_up = time <= KEEPS_UP && load.created > 0;
        Some(if keeps_up { Self::KeepsUp } else { Self::DoneIn(time) })
    }

    fn text(self) -> String {
        match self {
            Self::DoneIn(time) => format!("done in {}", show::duration(time)),
            Self::KeepsUp => "keeps up".to_owned(),
            Self::StandsStill => "stands still".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn pace(times: u64, minutes: u64) -> Pace {
        Pace { times, within: Duration::from_secs(minutes * 60) }
    }

    fn told(load: Load) -> Option<String> {
        Outlook::of(&load).map(Outlook::text)
    }

    #[test]
    fn what_can_be_known_is_said_and_nothing_else() {
        let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
        let sweep =
            Load { pending: 1_290, running: 32, is_served: true, oldest_pending: minutes(180), ..Load::default() };
        let stream = Load { pending: 3, running: 8, created: 700, oldest_pending: minutes(0), ..sweep };
        let cases = [
            ("nothing is left", Load { ended: pace(100, 5), ..Load::default() }, None),
            ("a sweep", Load { ended: pace(237, 5), ..sweep }, Some("done in 28 min")),
            (
                "a sweep of long runs",
                Load { ended: pace(1, 5), ended_in_hour: pace(30, 60), ..sweep },
                Some("done in 1.8 days"),
            ),
            ("the first runs are not over", sweep, None),
            ("too few ends", Load { ended: pace(2, 5), ended_in_hour: pace(2, 60), ..sweep }, None),
            ("a stream", Load { ended: pace(780, 5), ..stream }, Some("keeps up")),
            ("a stream that piles up", Load { pending: 10_000, ended: pace(780, 5), ..stream }, Some("done in 1.1 h")),
            ("the end of a sweep", Load { created: 0, ended: pace(780, 5), ..stream }, Some("done in 4.2 s")),
            ("nobody works", Load { running: 0, ..sweep }, Some("stands still")),
            ("nobody works any more", Load { running: 0, ended_in_hour: pace(30, 60), ..sweep }, Some("stands still")),
            ("a sweep whose workers are gone", Load { is_served: false, ended: pace(237, 5), ..sweep }, None),
            ("a stream whose workers are gone", Load { is_served: false, ended: pace(780, 5), ..stream }, None),
            ("paused", Load { is_paused: true, running: 0, ..sweep }, None),
            ("paused while the last runs end", Load { is_paused: true, ended: pace(237, 5), ..sweep }, None),
            ("just submitted", Load { running: 0, oldest_pending: minutes(0), ..sweep }, None),
            ("for ever", Load { pending: u64::MAX, ended: pace(3, 5), ..sweep }, None),
            ("an empty window", Load { ended: pace(9, 0), ..sweep }, None),
        ];
        for (case, load, expected) in cases {
            assert_eq!(told(load).as_deref(), expected, "{case}");
        }
    }
}
