//! The requests of one refresh: the health, the queues, the tasks and workers of each of them, and the rows of the open
//! pane or the output of a task. Of what is not on the screen only the counts are requested, which rates need.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use taskqueue_client::{
    Client, Error, ErrorCode, Group, GroupQuery, Health, OrderField, QueueName, QueueSettings, Status, TaskDimension,
    TaskId, TaskQuery, TaskSelection, WorkerQuery, WorkerSelection,
};
use taskqueue_core::words;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::snapshot::{Detail, Pane, QueueCounts, Rows, Snapshot, TaskOutput};
use crate::commands::status_counts::StatusCounts;
use crate::commands::task::{Cursor, Step};
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
    let health = match known_health {
        Some(health) => health,
        None => client.health().await?,
    };
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
    for queue in &mut queues {
        queue.settings = readers.settings.words(&queue.name);
    }
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
    let mut counted = Vec::with_capacity(names.len());
    for outcome in calls.join_all().await {
        match outcome {
            Ok(counts) => counted.push(counts),
            Err(error) if skip_deleted && error.code() == Some(ErrorCode::QueueNotFound) => {}
            Err(error) => return Err(error),
        }
    }
    counted.sort_by(|a: &QueueCounts, b| a.name.cmp(&b.name));
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
        let task = match client.task(&queue, id).await {
            Ok(task) => Some(task),
            Err(error) if error.code() == Some(ErrorCode::TaskNotFound) => None,
            Err(error) => return Err(error),
        };
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
        let lines = self.lines.iter().cloned().chain(self.open.open_line(None)).collect();
        Ok(TaskOutput { id, task, lines })
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
}
