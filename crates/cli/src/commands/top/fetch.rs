//! The requests of one refresh: the health, the queues, the tasks and workers of each of them, and the rows of the open
//! pane or the output of a task. Of what is not on the screen only the counts are requested, which rates need. And the result of a refresh, and
//! the rates of a queue, computed from the counts of consecutive ones. Between two refreshes the counts are taken to change linearly, so that
//! neither the interval nor a pause changes the rates.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use taskqueue_client::{
    Client, Error, ErrorCode, Group, GroupQuery, Health, Observation, OrderField, QueueName, QueueSettings, Status,
    Task, TaskDimension, TaskId, TaskQuery, TaskSelection, Version, WorkerQuery, WorkerSelection, WorkerStatus,
};
use taskqueue_core::status::Statuses;
use taskqueue_core::words;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::commands::queue::StatusCounts;
use crate::commands::task::{Cursor, Step, existing};
use crate::output::LogLines;

/// Queues that are counted in a refresh, each with up to two requests. With more queues, --queue selects some.
const QUEUES_MAX: usize = 50;
/// Concurrent requests. A view must not keep a server busy.
const CONCURRENT_REQUESTS: usize = 4;
/// Rows of a pane: more than a screen shows.
const ROWS_MAX: u16 = 100;
/// Enough for 200 routes with tasks of every status.
const GROUPS_MAX: u16 = 1000;

/// The selected queue, the open pane, and the task whose output is shown instead of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) queue: Option<QueueName>,
    pub(super) pane: Pane,
    pub(super) output: Option<(QueueName, TaskId)>,
}

/// The readers that get a little further with each refresh.
#[derive(Default)]
pub(super) struct Readers {
    output: OutputReader,
    settings: SettingsReader,
}

/// `only` are the queues to show; empty means all.
pub(super) async fn snapshot(
    client: Client,
    only: Vec<QueueName>,
    query: Query,
    readers: Arc<Mutex<Readers>>,
) -> Result<Snapshot, Error> {
    let mut readers = readers.lock().await;
    let known_health = readers.settings.begin();
    let reads_settings = known_health.is_some();
    let health = if let Some(health) = known_health { health } else { client.health().await? };
    readers.settings.note(&health);
    let mut names = if only.is_empty() {
        client.queues().await?.into_iter().map(|queue| queue.name).collect()
    } else {
        only.clone()
    };
    names.sort();
    names.dedup();
    let queues_left_out = names.len().saturating_sub(QUEUES_MAX);
    names.truncate(QUEUES_MAX);
    if reads_settings {
        readers.settings.read(&client, &names, query.queue.as_ref()).await;
    }
    let mut queues = Vec::with_capacity(names.len());
    for names in names.chunks(CONCURRENT_REQUESTS) {
        queues.extend(count(&client, names, only.is_empty()).await?);
    }
    queues.iter_mut().for_each(|queue| queue.settings = readers.settings.words(&queue.name));
    let selected = query.queue.filter(|queue| queues.iter().any(|counted| counted.name == *queue));
    let output = match query.output {
        Some((queue, id)) => Some(readers.output.read(&client, queue, id).await?),
        None => None,
    };
    let detail = match selected.filter(|_| output.is_none()) {
        Some(queue) => Some(detail(&client, queue, query.pane).await?),
        None => None,
    };
    Ok(Snapshot { health, version: client.server_version(), queues, queues_left_out, detail, output })
}

/// The counts of a few queues, sorted by name. Queues that were deleted meanwhile are left out if `skip_deleted`.
async fn count(client: &Client, names: &[QueueName], skip_deleted: bool) -> Result<Vec<QueueCounts>, Error> {
    let mut calls = JoinSet::<Result<QueueCounts, Error>>::new();
    for name in names.iter().cloned() {
        let client = client.clone();
        calls.spawn(async move {
            let counts = StatusCounts::of(&client, &name, TaskSelection::all()).await?;
            // Only the expected end of pending tasks depends on workers.
            let has_workers =
                counts.get(Status::Pending) == 0 || client.count(&name, &WorkerSelection::all()).await? > 0;
            Ok(QueueCounts { name, counts, has_workers, settings: None })
        });
    }
    let is_skipped = |error: &Error| skip_deleted && error.code() == Some(ErrorCode::QueueNotFound);
    let kept = calls.join_all().await.into_iter().filter(|outcome| !outcome.as_ref().is_err_and(is_skipped));
    let mut counted = kept.collect::<Result<Vec<QueueCounts>, Error>>()?;
    counted.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(counted)
}

async fn detail(client: &Client, queue: QueueName, pane: Pane) -> Result<Detail, Error> {
    let with_status = |status| TaskQuery::of(TaskSelection::all().status(status)).limit(ROWS_MAX);
    let rows = match pane {
        Pane::Routes => {
            let by = [TaskDimension::Routes, TaskDimension::Status];
            let query = GroupQuery::by(by, TaskSelection::all()).limit(GROUPS_MAX);
            let groups = client.page(&queue, &query).await?.items;
            // Groups are sorted by route, so those of one route are adjacent.
            let of_route = groups.chunk_by(|a, b| a.key.first() == b.key.first());
            Rows::Routes(of_route.map(|groups| (route(groups), StatusCounts::of_groups(groups))).collect())
        }
        Pane::Running => {
            let query = with_status(Status::Running).ascending_by(OrderField::StartedAt);
            Rows::Running(client.page(&queue, &query).await?.items)
        }
        Pane::Workers => {
            let query = WorkerQuery::of(WorkerSelection::all()).limit(ROWS_MAX);
            Rows::Workers(client.page(&queue, &query).await?.items)
        }
        Pane::Failed => {
            let query = with_status(Status::Failed).descending_by(OrderField::FinishedAt);
            Rows::Failed(client.page(&queue, &query).await?.items)
        }
    };
    Ok(Detail { queue, rows })
}

/// The route of groups by route and status.
fn route(groups: &[Group]) -> String {
    groups.first().and_then(|group| group.key.first()).cloned().unwrap_or_default()
}

#[derive(Debug, Default)]
pub(super) struct SettingsReader {
    known: HashMap<QueueName, QueueSettings>,
    /// As it was said last.
    health: Option<Health>,
    refreshes: usize,
}

impl SettingsReader {
    /// Begins a refresh: the health that counts for it, if the settings of a queue are read instead.
    pub(super) fn begin(&mut self) -> Option<Health> {
        self.refreshes += 1;
        let is_turn = self.refreshes.is_multiple_of(2);
        self.health.clone().filter(|health| is_turn && health.is_ok)
    }

    /// Notes the health of this refresh.
    pub(super) fn note(&mut self, health: &Health) {
        self.health = Some(health.clone());
    }

    /// The queue whose turn it is.
    fn next<'q>(&self, queues: &'q [QueueName], selected: Option<&'q QueueName>) -> Option<&'q QueueName> {
        let turn = self.refreshes / 2;
        let selected = selected.filter(|queue| turn % 2 == 1 && queues.contains(queue));
        selected.or_else(|| queues.get((turn / 2) % queues.len().max(1)))
    }

    /// Reads the settings of one of these queues. Without an answer, what was known before is shown.
    pub(super) async fn read(&mut self, client: &Client, queues: &[QueueName], selected: Option<&QueueName>) {
        self.known.retain(|queue, _| queues.contains(queue));
        let Some(queue) = self.next(queues, selected) else { return };
        if let Ok(settings) = client.queue_settings(queue).await {
            self.known.insert(queue.clone(), settings);
        }
    }

    /// Pause and limits of a queue in a few words, if it has any.
    pub(super) fn words(&self, queue: &QueueName) -> Option<String> {
        limit_words(self.known.get(queue)?)
    }
}

/// `paused, max 8, gpu max 4`
fn limit_words(settings: &QueueSettings) -> Option<String> {
    let paused = settings.paused.then(|| "paused".to_owned());
    let most = settings.max_running.map(|most| format!("max {most}"));
    let routes = settings.route_limits.iter().map(|(route, most)| format!("{route} max {most}"));
    let words: Vec<String> = paused.into_iter().chain(most).chain(routes).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// The lines that are kept for scrolling.
const LINES_MAX: usize = 2000;
/// Answers of one refresh, of 1 MiB each.
const ANSWERS_MAX: usize = 8;

pub(super) struct OutputReader {
    of: Option<(QueueName, TaskId)>,
    cursor: Cursor,
    open: LogLines,
    lines: VecDeque<String>,
}

impl Default for OutputReader {
    fn default() -> Self {
        Self { of: None, cursor: Cursor::default(), open: LogLines::new(false), lines: VecDeque::new() }
    }
}

impl OutputReader {
    /// Reads what is new of this task, or everything of another one.
    pub(super) async fn read(&mut self, client: &Client, queue: QueueName, id: TaskId) -> Result<TaskOutput, Error> {
        let of = Some((queue.clone(), id));
        if self.of != of {
            *self = Self { of, ..Self::default() };
        }
        let task = existing(client, &queue, id).await?;
        for _ in 0..ANSWERS_MAX {
            match client.output(&queue, id, self.cursor.offset, None).await {
                Ok(answer) if answer.value.text.is_empty() && answer.value.end == self.cursor.offset => break,
                Ok(answer) => self.accept(&answer.value),
                // Nothing is kept, or the task is gone.
                Err(error) if matches!(error.code(), Some(ErrorCode::OutputNotFound | ErrorCode::TaskNotFound)) => {
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(TaskOutput { id, task, lines: self.lines.iter().cloned().chain(self.open.open_line(None)).collect() })
    }

    fn accept(&mut self, output: &taskqueue_client::Output) {
        match self.cursor.accept(output) {
            Step::AnotherRun => return self.mark(&format!("attempt {} begins", output.attempt)),
            Step::Next { missing: 0, .. } => {}
            Step::Next { missing, is_first: true } => {
                self.mark(&format!("{} of older output are no longer kept", words::count(missing, "byte")));
            }
            Step::Next { missing, .. } => self.mark(&format!("{} are missing here", words::count(missing, "byte"))),
        }
        let lines = &mut self.lines;
        self.open.read(&output.text, |line| lines.push_back(line));
        lines.drain(..lines.len().saturating_sub(LINES_MAX));
    }

    /// A line of ours.
    fn mark(&mut self, words: &str) {
        self.lines.extend(self.open.end_line());
        self.lines.push_back(format!("[... {words} ...]"));
    }
}

#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) health: Health,
    pub(super) version: Option<Version>,
    /// Sorted by name.
    pub(super) queues: Vec<QueueCounts>,
    /// The number of queues that were not counted.
    pub(super) queues_left_out: usize,
    /// The open pane of the selected queue; none if no queue is selected yet or it was deleted.
    pub(super) detail: Option<Detail>,
    /// The output that is shown instead.
    pub(super) output: Option<TaskOutput>,
}

/// The latest lines that a task printed.
#[derive(Clone, Debug)]
pub(super) struct TaskOutput {
    pub(super) id: TaskId,
    /// None if it was deleted.
    pub(super) task: Option<Task>,
    /// Oldest first; none if nothing is kept.
    pub(super) lines: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueueCounts {
    pub(super) name: QueueName,
    pub(super) counts: StatusCounts,
    /// True if a worker has reported lately; asked only where something is pending.
    pub(super) has_workers: bool,
    /// Pause and limits in a few words, if there are any.
    pub(super) settings: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pane {
    #[default]
    Routes,
    Running,
    Workers,
    Failed,
}

impl Pane {
    pub(super) const ALL: [Self; 4] = [Self::Routes, Self::Running, Self::Workers, Self::Failed];

    /// The pane `places` further, cyclically.
    pub(super) fn step(self, places: usize) -> Self {
        Self::ALL[(self as usize + places) % Self::ALL.len()]
    }
}

#[derive(Clone, Debug)]
pub(super) struct Detail {
    pub(super) queue: QueueName,
    pub(super) rows: Rows,
}

#[derive(Clone, Debug)]
pub(super) enum Rows {
    /// Each route with the counts of its tasks.
    Routes(Vec<(String, StatusCounts)>),
    /// Running tasks, the longest running first.
    Running(Vec<Task>),
    Workers(Vec<Observation>),
    /// Failed tasks, the latest first.
    Failed(Vec<Task>),
}

impl Rows {
    pub(super) fn pane(&self) -> Pane {
        match self {
            Self::Routes(_) => Pane::Routes,
            Self::Running(_) => Pane::Running,
            Self::Workers(_) => Pane::Workers,
            Self::Failed(_) => Pane::Failed,
        }
    }

    /// The task of each row, in the order in which the rows are shown.
    pub(super) fn tasks(&self) -> Vec<Option<TaskId>> {
        match self {
            Self::Routes(rows) => vec![None; rows.len()],
            Self::Running(rows) | Self::Failed(rows) => rows.iter().map(|task| Some(task.id)).collect(),
            Self::Workers(rows) => busy_first(rows).iter().map(|worker| worker.report.task_id).collect(),
        }
    }
}

/// The server sorts by id, which means little to people.
pub(super) fn busy_first(workers: &[Observation]) -> Vec<&Observation> {
    let mut workers: Vec<&Observation> = workers.iter().collect();
    workers.sort_by_key(|worker| worker.report.status == WorkerStatus::Idle);
    workers
}

/// The time over which rates are averaged: long enough to be steady, short enough to follow changes.
const WINDOW: Duration = Duration::from_secs(60);
/// Over shorter times a single task would look like a high rate.
const WINDOW_MIN: Duration = Duration::from_secs(1);
/// The time that the bar chart covers.
const BARS: Duration = Duration::from_secs(300);

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    samples: VecDeque<Sample>,
    latest: StatusCounts,
}

/// Tasks that were created and that ended since the history began. Deletions and requeues between two refreshes make the
/// counts smaller; that is not counted as work.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    created: u64,
    finished: u64,
}

/// Tasks per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    pub(super) created: f64,
    pub(super) finished: f64,
}

impl Rates {
    /// The seconds until the pending tasks have ended at this rate.
    pub(super) fn seconds_left(&self, counts: &StatusCounts) -> Option<f64> {
        let pending = counts.get(Status::Pending);
        (pending > 0 && self.finished > 0.0).then(|| pending as f64 / self.finished)
    }
}

impl History {
    pub(super) fn record(&mut self, counts: StatusCounts, at: Instant) {
        let ended = |counts: &StatusCounts| counts.among(Statuses::ENDED);
        let sample = self.samples.back().map_or(Sample { at, created: 0, finished: 0 }, |last| {
            let created = last.created + counts.total().saturating_sub(self.latest.total());
            Sample { at, created, finished: last.finished + ended(&counts).saturating_sub(ended(&self.latest)) }
        });
        self.latest = counts;
        self.samples.push_back(sample);
        // The sample before the first bar is the start of that bar.
        while self.samples.get(1).is_some_and(|second| at.saturating_duration_since(second.at) >= BARS) {
            self.samples.pop_front();
        }
    }

    /// The rates up to the latest refresh; none until there are enough samples.
    pub(super) fn rates(&self) -> Option<Rates> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let window = last.at.duration_since(first.at).min(WINDOW);
        if window < WINDOW_MIN {
            return None;
        }
        let since = last.at.checked_sub(window)?;
        let per_second =
            |count: fn(&Sample) -> u64| (count(last) as f64 - self.interpolate(since, count)) / window.as_secs_f64();
        Some(Rates { created: per_second(|sample| sample.created), finished: per_second(|sample| sample.finished) })
    }

    /// Tasks that ended in each of `count` equal parts of the last minutes, oldest first, in thousandths so that the bars
    /// of slow queues are not flat.
    pub(super) fn bars(&self, count: usize) -> Vec<u64> {
        let Some(last) = self.samples.back() else { return Vec::new() };
        let part = BARS / u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        let level = |parts_ago: usize| {
            let ago = part.saturating_mul(u32::try_from(parts_ago).unwrap_or(u32::MAX));
            last.at.checked_sub(ago).map_or(0.0, |at| self.interpolate(at, |sample| sample.finished))
        };
        (0..count).rev().map(|ago| ((level(ago) - level(ago + 1)) * 1000.0).max(0.0).round() as u64).collect()
    }

    /// A count at this time, interpolated linearly between two samples.
    fn interpolate(&self, at: Instant, count: fn(&Sample) -> u64) -> f64 {
        let later = self.samples.partition_point(|sample| sample.at <= at);
        let (Some(before), after) =
            (later.checked_sub(1).and_then(|index| self.samples.get(index)), self.samples.get(later))
        else {
            return self.samples.front().map_or(0.0, |first| count(first) as f64);
        };
        let Some(after) = after else { return count(before) as f64 };
        let part = at.duration_since(before.at).as_secs_f64() / after.at.duration_since(before.at).as_secs_f64();
        count(before) as f64 + part * (count(after) as f64 - count(before) as f64)
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_client::{Output, Route};

    use super::*;

    fn queue(name: &str) -> QueueName {
        QueueName::parse(name).unwrap()
    }

    #[test]
    fn every_second_refresh_reads_settings_instead_of_the_health() {
        let mut reader = SettingsReader::default();
        let health = Health { is_ok: true, api_version: "2".to_owned() };
        let mut asks = || {
            let is_replaced = reader.begin().is_some();
            reader.note(&health);
            is_replaced
        };
        assert_eq!([asks(), asks(), asks(), asks()], [false, true, false, true]);
    }

    #[test]
    fn every_queue_has_its_turn_and_the_selected_one_more_often() {
        let queues = [queue("a"), queue("b"), queue("c")];
        let turn = |turn: usize| {
            let reader = SettingsReader { refreshes: 2 * turn, ..SettingsReader::default() };
            reader.next(&queues, Some(&queues[2])).unwrap().to_string()
        };
        assert_eq!((1..=8).map(turn).collect::<Vec<_>>().join(" "), "c b c c c a c b");
        let reader = SettingsReader::default();
        assert_eq!(reader.next(&[], None), None);
        assert_eq!(reader.next(&queues, Some(&queue("gone"))), Some(&queues[0]));
    }

    #[test]
    fn only_what_limits_claims_is_said() {
        assert_eq!(limit_words(&QueueSettings::default()), None);
        let limited = QueueSettings {
            paused: true,
            max_running: Some(8),
            route_limits: [(Route::parse("gpu").unwrap(), 4)].into(),
            ..QueueSettings::default()
        };
        assert_eq!(limit_words(&limited).as_deref(), Some("paused, max 8, gpu max 4"));
    }

    fn read(reader: &mut OutputReader, attempt: i64, start: u64, text: &str) {
        let end = start + text.len() as u64;
        reader.accept(&Output { attempt, start, end, text: text.to_owned(), ended: false });
    }

    #[test]
    fn pieces_become_lines_and_what_is_missing_is_marked() {
        let mut reader = OutputReader::default();
        read(&mut reader, 1, 100, "a\n 10%\r");
        read(&mut reader, 1, 107, "100%\nopen");
        read(&mut reader, 1, 120, "b\n");
        read(&mut reader, 2, 122, "x");
        read(&mut reader, 2, 0, "again\n");
        let expected = [
            "[... 100 bytes of older output are no longer kept ...]",
            "a",
            "100%",
            "open",
            "[... 4 bytes are missing here ...]",
            "b",
            "[... attempt 2 begins ...]",
            "again",
        ];
        assert_eq!(reader.lines, expected);
    }

    #[test]
    fn memory_does_not_grow_with_the_output() {
        let mut reader = OutputReader::default();
        read(&mut reader, 1, 0, &"x\n".repeat(3 * LINES_MAX));
        read(&mut reader, 1, 6 * LINES_MAX as u64, "last\n");
        assert_eq!((reader.lines.len(), reader.lines.back().map(String::as_str)), (LINES_MAX, Some("last")));
    }

    #[test]
    fn panes_follow_each_other_cyclically() {
        assert_eq!(Pane::Routes.step(1), Pane::Running);
        assert_eq!(Pane::Failed.step(1), Pane::Routes);
        assert_eq!(Pane::Routes.step(3), Pane::Failed);
    }

    /// Counts of pending and succeeded tasks.
    fn counts(pending: u64, succeeded: u64) -> StatusCounts {
        StatusCounts([pending, 0, succeeded, 0, 0])
    }

    /// A history of refreshes: seconds since the first, pending, succeeded.
    fn history(refreshes: &[(u64, u64, u64)]) -> History {
        let start = Instant::now();
        let mut history = History::default();
        for (second, pending, succeeded) in refreshes {
            history.record(counts(*pending, *succeeded), start + Duration::from_secs(*second));
        }
        history
    }

    #[test]
    fn one_refresh_gives_no_rate() {
        assert_eq!(history(&[]).rates(), None);
        assert_eq!(history(&[(0, 5, 5)]).rates(), None);
        assert_eq!(history(&[(0, 5, 5), (0, 4, 6)]).rates(), None, "nor do two at once");
        assert_eq!(history(&[(0, 5, 5)]).bars(3), [0, 0, 0]);
    }

    #[test]
    fn rates_are_changes_of_counts_over_time() {
        let rates = history(&[(0, 100, 0), (2, 96, 4), (4, 102, 8)]).rates().unwrap();
        assert_eq!(rates, Rates { created: 2.5, finished: 2.0 });
        assert_eq!(rates.seconds_left(&counts(102, 8)), Some(51.0));
        assert_eq!(rates.seconds_left(&counts(0, 8)), None);
    }

    #[test]
    fn a_queue_that_stands_still_has_no_end_in_sight() {
        let rates = history(&[(0, 100, 0), (2, 100, 0)]).rates().unwrap();
        assert_eq!((rates.finished, rates.seconds_left(&counts(100, 0))), (0.0, None));
    }

    #[test]
    fn only_the_last_minute_counts_also_where_refreshes_are_rare() {
        let busy_then_idle = history(&[(0, 0, 0), (10, 0, 1000), (70, 0, 1000)]);
        assert_eq!(busy_then_idle.rates().unwrap().finished, 0.0);
        let rare = history(&[(0, 0, 0), (120, 0, 1200)]);
        assert_eq!(rare.rates().unwrap().finished, 10.0);
    }

    #[test]
    fn deleted_and_requeued_tasks_are_no_work_and_no_debt() {
        let rates = history(&[(0, 0, 100), (1, 100, 0), (2, 80, 20), (3, 0, 0), (4, 0, 20)]).rates().unwrap();
        assert_eq!(rates, Rates { created: 5.0, finished: 10.0 });
    }

    #[test]
    fn bars_are_equal_parts_of_five_minutes_whatever_the_interval() {
        let history = history(&[(0, 0, 0), (100, 0, 100), (250, 0, 100), (300, 0, 200)]);
        assert_eq!(history.bars(3), [100_000, 0, 100_000]);
        assert_eq!(history.bars(6), [50_000, 50_000, 0, 0, 0, 100_000]);
    }

    #[test]
    fn what_is_older_than_the_bars_is_forgotten() {
        let refreshes: Vec<(u64, u64, u64)> = (0..2000).map(|second| (second, 0, second)).collect();
        let history = history(&refreshes);
        assert_eq!(history.samples.len(), 301);
        assert_eq!(history.bars(5), [60_000; 5]);
    }
}
