//! All queues at one glance: what needs attention, and a card for each queue, with when it will have done its work, as far as that can be
//! known. What alerts say is in `overview/alerts.rs`; what needs attention is decided in `attention.rs`.
//!
//! How much is read for it at most: the figures of the queues that the viewer may see, some queues at a time, the minutes of as many queues
//! as have a card, and for a few queues that fail their newest tasks. No read visits all tasks of a queue. What is not shown is not kept.

mod alerts;

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use futures_util::{StreamExt, stream};
use taskqueue_core::activity::{Counts, Event, Span, Unit};
use taskqueue_core::shell::CommandLine;
use taskqueue_core::stats::{KnownSpans, PendingDetail, QueueStats, SeriesSelection};
use taskqueue_core::time::between;
use taskqueue_core::{
    QueueFigures, QueueName, Route, RouteSelection, Scope, Status, TaskOrder, TaskQuery, TaskSelection, TaskView,
    Timestamp,
};
use taskqueue_store::{Store, StoreExt};

use self::alerts::{AlertLine, Alerts};
use crate::attention::{self, Concern, Failure, NewestTasks, QueueSight};
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::shared_figures::{QUEUES_AT_ONCE, SharedQueue, all_tasks, running_of};
use crate::show::{self, Bar, Minute, Moment, Spark, command_line};
use crate::state::Dashboard;
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
    let Reading { now, queues: mut cards, left_out, alerts, seen } = read(&visit, &find).await?;
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

/// Queues that have a card with their activity. More are rows of a table, without activity.
pub(crate) const CARDS: usize = 50;
/// Rows of that table.
const ROWS: usize = 1_000;
/// Reads under way at once for one page: it must not take all readers from others.
const READS_AT_ONCE: usize = 4;
/// Queues whose newest tasks are looked at.
const LOOKED_INTO: usize = 5;
/// Tasks that are looked at in such a queue: failed ones, and those that have not ended.
const FAILED_TASKS: u16 = 20;
const NEWEST_TASKS: u16 = 30;
/// A message is cut to so many characters.
const MESSAGE_CHARS: usize = 120;
/// The minutes that are drawn.
const MINUTES: i64 = 60;

/// Everything that the overview shows.
pub(crate) struct Reading {
    pub(crate) now: Timestamp,
    /// Those that are shown, by name, and how many more were found.
    pub(crate) queues: Vec<Card>,
    pub(crate) left_out: usize,
    pub(crate) alerts: Alerts,
    /// How many queues the viewer may see.
    pub(crate) seen: usize,
}

/// A queue: what was read of it, and what its viewer may do there.
pub(crate) struct Card {
    pub(crate) name: QueueName,
    pub(crate) shared: Arc<SharedQueue>,
    /// Nothing for queues without a card of their own, or if it cannot be read.
    pub(crate) lately: Option<Lately>,
    /// Not for queues without a card of their own, nor where a server has no settings.
    pub(crate) shows_settings: bool,
    pub(crate) may_submit: bool,
    /// True if it may be deleted, and its settings changed.
    pub(crate) may_change: bool,
}

/// What happened in a queue in the last hour.
pub(crate) struct Lately {
    pub(crate) last_5_minutes: Counts,
    pub(crate) last_hour: Counts,
    /// The last minutes one by one, the current one included.
    pub(crate) minutes: Vec<Minute>,
    /// How much of the last hour is known to have had work.
    pub(crate) busy_for: Duration,
}

impl Lately {
    pub(crate) const RECENT: Duration = Duration::from_secs(300);

    fn of(spans: &KnownSpans, since: Timestamp, now: Timestamp) -> Self {
        let stats = QueueStats::of(now, QueueFigures::default(), spans, since);
        let minute = Unit::Minute.seconds();
        let first = Span::of(Unit::Minute, now).start.plus_seconds(-(MINUTES - 1) * minute);
        let mut minutes = vec![Minute::default(); usize::try_from(MINUTES).unwrap_or(0)];
        for (start, activity) in spans {
            let place = (start.as_micros() - first.as_micros()).div_euclid(minute * 1_000_000);
            if let Some(drawn) = usize::try_from(place).ok().and_then(|place| minutes.get_mut(place)) {
                let failed = activity.counts.of(Event::Failed) + activity.counts.of(Event::Expired);
                *drawn = Minute { ended: attention::ended(&activity.counts), failed };
            }
        }
        let has_work = |counts: &Counts| counts.of(Event::Claimed) > 0 || attention::ended(counts) > 0;
        let began = spans.iter().find(|(_, activity)| has_work(&activity.counts)).map_or(now, |(start, _)| *start);
        let busy_for = between(began, now).min(Duration::from_secs(3_600));
        Self { last_5_minutes: stats.last_5_minutes, last_hour: stats.last_hour, minutes, busy_for }
    }

    /// Returns how many runs of the last hour failed, or were lost.
    pub(crate) fn failed(&self) -> u64 {
        self.last_hour.of(Event::Failed) + self.last_hour.of(Event::Expired)
    }
}

/// Reads what a viewer may see.
pub(crate) async fn read(visit: &Visit, find: &str) -> Result<Reading, Problem> {
    let store = visit.dashboard.store();
    let mut found = store.list_queue_keys().await?;
    found.retain(|(_, name)| visit.viewer.sees(name.as_str()));
    let seen = found.len();
    found.retain(|(_, name)| name.as_str().contains(find));
    found.sort_by(|(_, a), (_, b)| a.as_str().cmp(b.as_str()));
    let now = store.figures(&[], &RouteSelection::NONE, PendingDetail::Number).await?.now;
    let names: Vec<QueueName> = found.iter().take(CARDS).map(|(_, name)| name.clone()).collect();
    let activities = stream::iter(names).map(|name| read_lately(store, name, now)).buffered(READS_AT_ONCE);
    let mut activities = activities.collect::<Vec<Option<Lately>>>().await.into_iter();
    let mut reading = Reading { now, queues: Vec::new(), left_out: 0, alerts: Alerts::default(), seen };
    server_concerns(visit).await.iter().for_each(|concern| reading.alerts.add(concern));
    let mut looks = 0;
    for part in found.chunks(QUEUES_AT_ONCE) {
        let figures = visit.dashboard.figures.of(store, part, visit.began).await?;
        for ((_, name), shared) in part.iter().zip(figures) {
            let lately = activities.next();
            // One that was deleted meanwhile has none.
            let Some(shared) = shared else { continue };
            let card = Card {
                shared,
                shows_settings: lately.is_some() && visit.dashboard.has("queue-settings"),
                lately: lately.flatten(),
                may_submit: visit.may(Scope::Submit, name),
                may_change: visit.may(Scope::Admin, name),
                name: name.clone(),
            };
            add_alerts(&visit.dashboard, &card, now, &mut looks, &mut reading.alerts).await;
            if reading.queues.len() < CARDS + ROWS {
                reading.queues.push(card);
            } else {
                reading.left_out += 1;
            }
        }
    }
    Ok(reading)
}

/// Returns what happened lately in a queue; nothing if it was deleted meanwhile, or if that cannot be read: the rest can.
async fn read_lately(store: &dyn Store, queue: QueueName, now: Timestamp) -> Option<Lately> {
    let (from, to) = QueueStats::needs(now);
    let selection = SeriesSelection { unit: Unit::Minute, from: Some(from), to: Some(to) };
    let series = store.activity_series(&queue, selection).await.ok()?;
    Some(Lately::of(&series.spans, series.since, now))
}

/// Returns what of the server needs attention. Only those who may see everything learn of it.
async fn server_concerns(visit: &Visit) -> Vec<Concern> {
    if !visit.viewer.sees_everything() {
        return Vec::new();
    }
    let (process, host) = (visit.dashboard.store().process_figures(), visit.dashboard.host.figures());
    attention::of_server(visit.dashboard.check_storage().await, &process, &host)
}

/// Adds what of a queue needs attention. Into the first ones that fail it is looked.
async fn add_alerts(dashboard: &Dashboard, card: &Card, now: Timestamp, looks: &mut usize, alerts: &mut Alerts) {
    let Card { name, shared, lately, .. } = card;
    let last_hour = lately.as_ref().map(|lately| lately.last_hour);
    let mut newest = NewestTasks::default();
    if lately.as_ref().is_some_and(|lately| lately.failed() > 0) && *looks < LOOKED_INTO {
        *looks += 1;
        let is_failing = last_hour.as_ref().is_some_and(attention::is_failing);
        newest = dashboard.newest_tasks.look(name.as_str(), read_newest(dashboard.store(), name, is_failing)).await;
    }
    let sight = QueueSight { queue: name.as_str(), figures: &shared.figures, now, last_hour, newest };
    attention::of_queue(&sight).iter().for_each(|concern| alerts.add(concern));
    alerts.add_untold(attention::untold(&shared.figures));
}

/// Looks at the newest tasks of a queue. They may have to wait for reads that visit all tasks; the page does not.
async fn read_newest(store: &dyn Store, queue: &QueueName, is_failing: bool) -> Option<NewestTasks> {
    let failures = if is_failing {
        newest(store, queue, Some(Status::Failed), FAILED_TASKS, failure_of).await?
    } else {
        Vec::new()
    };
    Some(NewestTasks { failures, attempts: newest(store, queue, None, NEWEST_TASKS, attempts_of).await? })
}

fn failure_of(task: &TaskView<'_>) -> Option<Failure> {
    let error = task.last_error?;
    let line = error.message.lines().find(|line| !line.trim().is_empty()).unwrap_or(error.kind);
    let message = line.chars().map(|char| if char.is_control() { ' ' } else { char }).take(MESSAGE_CHARS).collect();
    Some(Failure { message, route: task.last_route.map(str::to_owned) })
}

fn attempts_of(task: &TaskView<'_>) -> Option<(i64, i64)> {
    matches!(task.status, Status::Pending | Status::Running).then_some((task.attempt, task.max_attempts))
}

/// Returns what `read` finds in the newest tasks; nothing if they cannot be read.
async fn newest<T: Send + 'static>(
    store: &dyn Store,
    queue: &QueueName,
    status: Option<Status>,
    limit: u16,
    read: fn(&TaskView<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let selection = TaskSelection { status, ..TaskSelection::default() };
    let query = TaskQuery { selection, order: TaskOrder::default(), limit, after: None, max_bytes: usize::MAX };
    let found = store.list_rows(queue, query, move |task| (read(task), size_of::<T>())).await.ok()?;
    Some(found.items.into_iter().flatten().collect())
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

#[cfg(test)]
mod reading_tests {
    use taskqueue_core::activity::{Activity, Record};

    use super::*;

    fn at(minute: i64, second: i64) -> Timestamp {
        Timestamp::from_micros((minute * 60 + second) * 1_000_000)
    }

    fn activity(events: &[Event]) -> Activity {
        let mut activity = Activity::default();
        for event in events {
            activity.add(Record { event: *event, micros: None });
        }
        activity
    }

    #[test]
    fn minutes_are_in_their_places_and_those_that_are_too_old_in_none() {
        let spans = vec![
            (at(40, 0), activity(&[Event::Succeeded])),
            (at(41, 0), activity(&[Event::Succeeded, Event::Failed, Event::Released])),
            (at(100, 0), activity(&[Event::Created, Event::Expired])),
            (at(101, 0), activity(&[Event::Succeeded])),
        ];
        let lately = Lately::of(&spans, at(0, 0), at(100, 30));
        assert_eq!(lately.minutes.len(), 60);
        assert_eq!(lately.minutes[0], Minute { ended: 2, failed: 1 });
        assert_eq!(lately.minutes[59], Minute { ended: 1, failed: 1 });
        assert_eq!(lately.minutes.iter().map(|minute| minute.ended).sum::<u64>(), 3);
        assert_eq!(lately.busy_for, Duration::from_secs(3_600));
    }

    #[test]
    fn a_queue_is_busy_since_its_first_run_and_not_since_tasks_were_created() {
        let spans = vec![(at(80, 0), activity(&[Event::Created])), (at(90, 0), activity(&[Event::Claimed]))];
        assert_eq!(Lately::of(&spans, at(0, 0), at(100, 30)).busy_for, Duration::from_secs(630));
        assert_eq!(Lately::of(&Vec::new(), at(0, 0), at(100, 30)).busy_for, Duration::ZERO);
    }
}
