//! Warnings of what may keep a wait from ending: routes that no live worker serves, and runs that were not heard of for a while. And the tasks
//! that are waited for, and asking the server about them.
//!
//! Where running a task cannot take it out of the selection, the server counts: one request, however many tasks there are.
//! Otherwise (ids; a filter on the status, the result, ...) every task that matched once is followed by its id.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use taskqueue_client::{
    Error, ErrorCode, GroupQuery, OrderField, Reason, Routes, Status, Task, TaskDimension, TaskId, TaskQuery,
    TaskSelection, Timestamp, Walk, WorkerDimension, WorkerSelection,
};
use taskqueue_core::filter::{Document, TaskFilter, TaskPredicate};
use taskqueue_core::limits::LEASE_SECONDS;
use taskqueue_core::status::Statuses;
use taskqueue_core::words;
use tokio::time::{Instant, timeout};

use super::Tally;
use crate::args::{ConditionArgs, PAGE_LIMIT};
use crate::commands::queue::StatusCounts;
use crate::commands::task::concurrent_calls::{ConcurrentCalls, Outage};
use crate::commands::task::named_tasks;
use crate::config::ClientContext;
use crate::failure::CommandError;
use crate::output::{self, ProgressView, worker_place};

/// The progress of no more running tasks is asked for with each poll.
const PROGRESS_TASKS: u16 = 100;
/// Further missing tasks are only counted.
const MISSING_SHOWN: u64 = 20;
/// The states of tasks with a run, and of those that wait for one.
pub(super) const RUNNING: Statuses = Statuses::NONE.with(Status::Running);
pub(super) const PENDING: Statuses = Statuses::NONE.with(Status::Pending);

/// The tasks that are waited for.
pub(super) enum WatchedTasks {
    Counted(ConditionArgs),
    Followed(FollowedTasks),
}

impl WatchedTasks {
    /// `ids` are the tasks that are named.
    pub(super) fn new(conditions: &ConditionArgs, ids: &[TaskId]) -> Self {
        let selection = match &conditions.filter {
            _ if !ids.is_empty() => None,
            Some(filter) if !outlasts_a_run(filter) => Some(conditions.selection()),
            _ => return Self::Counted(conditions.clone()),
        };
        let tasks = ids.iter().map(|id| (*id, FollowedTask::NotAsked)).collect();
        Self::Followed(FollowedTasks { selection, tasks, warnings: Vec::new() })
    }

    /// Asks once. Each answer of many is recorded.
    pub(super) async fn poll(&mut self, context: &ClientContext, outage: &mut Outage) -> Result<Tally, CommandError> {
        match self {
            Self::Counted(conditions) => {
                let counts = StatusCounts::of(&context.client, &context.queue, conditions.selection()).await?;
                Ok(Tally { counts, missing: 0 })
            }
            Self::Followed(followed) => followed.poll(context, outage).await,
        }
    }

    /// Returns how far the running tasks are that say so.
    pub(super) async fn progress(&self, context: &ClientContext, tally: &Tally) -> Result<Vec<ProgressView>, Error> {
        match self {
            Self::Followed(followed) => {
                Ok(followed.among(RUNNING).filter_map(|task| task.progress.as_deref().cloned()).collect())
            }
            // Of many running tasks only the number is known.
            Self::Counted(_) if !(1..=PROGRESS_TASKS.into()).contains(&tally.counts.get(Status::Running)) => {
                Ok(Vec::new())
            }
            Self::Counted(conditions) => {
                let query = TaskQuery::of(conditions.selection().status(Status::Running)).limit(PROGRESS_TASKS);
                let running = context.client.page(&context.queue, &query).await?.items;
                Ok(running.iter().filter_map(|task| ProgressView::of(task, output::now())).collect())
            }
        }
    }

    /// Takes the warnings that were not shown yet.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        match self {
            Self::Counted(_) => Vec::new(),
            Self::Followed(followed) => std::mem::take(&mut followed.warnings),
        }
    }

    /// Returns some of the tasks that failed or were cancelled.
    pub(super) async fn unsuccessful(&self, context: &ClientContext, limit: u16) -> Result<Vec<SeenTask>, Error> {
        let mut found = Vec::new();
        match self {
            Self::Followed(followed) => {
                found.extend(followed.among(Statuses::UNSUCCESSFUL).take(limit.into()).cloned())
            }
            Self::Counted(conditions) => {
                for status in [Status::Failed, Status::Cancelled] {
                    let query = TaskQuery::of(conditions.selection().status(status)).limit(limit);
                    let page = context.client.page(&context.queue, &query).await?;
                    found.extend(page.items.iter().map(SeenTask::of));
                }
            }
        }
        found.truncate(limit.into());
        Ok(found)
    }
}

/// Returns whether a filter selects a task before, during and after its run alike: it asks only about the definition. What cannot
/// be parsed here is left to the server.
fn outlasts_a_run(filter: &str) -> bool {
    let Ok(filter) = TaskFilter::parse(filter) else { return false };
    let mut outlasts = true;
    filter.expression().for_each(&mut |predicate| {
        outlasts &= matches!(
            predicate,
            TaskPredicate::Presence(_)
                | TaskPredicate::Id(_)
                | TaskPredicate::Name(_)
                | TaskPredicate::Priority(_)
                | TaskPredicate::MaxAttempts(_)
                | TaskPredicate::CreatedAt(_)
                | TaskPredicate::Routes(_)
                | TaskPredicate::Document(Document::Args | Document::Metadata, ..)
        );
    });
    outlasts
}

/// Tasks that are followed by their ids until they have ended.
#[derive(Debug)]
pub(super) struct FollowedTasks {
    /// Tasks that match later are followed, too.
    selection: Option<TaskSelection>,
    tasks: BTreeMap<TaskId, FollowedTask>,
    warnings: Vec<String>,
}

/// A task that is followed.
#[derive(Debug)]
enum FollowedTask {
    NotAsked,
    Missing,
    Seen(SeenTask),
}

/// A task as it was when it was asked for last, as far as that is needed.
#[derive(Clone, Debug)]
pub(super) struct SeenTask {
    pub(super) id: TaskId,
    pub(super) status: Status,
    /// None of a task that has ended.
    pub(super) routes: Option<Routes>,
    progress: Option<Box<ProgressView>>,
    /// Why it failed.
    pub(super) reason: Option<String>,
}

impl SeenTask {
    fn of(task: &Task) -> Self {
        let failure = task.last_error.as_ref().filter(|_| task.status == Status::Failed).map(|error| &error.failure);
        // There may be a million of them, most of which have ended.
        let is_running = task.status == Status::Running;
        let progress = if is_running { ProgressView::of(task, output::now()) } else { None };
        Self {
            id: task.id,
            status: task.status,
            routes: (!task.status.is_ended()).then(|| task.routes.clone()),
            progress: progress.map(Box::new),
            reason: failure.map(|failure| format!("{}: {}", failure.kind, failure.message)),
        }
    }
}

impl FollowedTasks {
    async fn poll(&mut self, context: &ClientContext, outage: &mut Outage) -> Result<Tally, CommandError> {
        let mut fresh = BTreeSet::new();
        if let Some(selection) = self.selection.clone() {
            let mut walk = context.client.walk(&context.queue, TaskQuery::of(selection).limit(PAGE_LIMIT));
            while let Some(task) = walk.next().await? {
                outage.answered(Instant::now());
                fresh.insert(task.id);
                self.tasks.insert(task.id, FollowedTask::Seen(SeenTask::of(&task)));
            }
        }
        let is_open = |task: &FollowedTask| match task {
            FollowedTask::NotAsked => true,
            FollowedTask::Missing => false,
            FollowedTask::Seen(task) => !task.status.is_ended(),
        };
        self.ask(context, outage, &mut fresh, is_open).await?;
        if self.tally().unfinished() == 0 {
            // Somebody may have requeued a task since it ended.
            let is_unsuccessful = |task: &FollowedTask| matches!(task, FollowedTask::Seen(task) if Statuses::UNSUCCESSFUL.contains(task.status));
            self.ask(context, outage, &mut fresh, is_unsuccessful).await?;
        }
        Ok(self.tally())
    }

    /// Requests the tasks that `is_due` and that are not fresh yet.
    async fn ask(
        &mut self,
        context: &ClientContext,
        outage: &mut Outage,
        fresh: &mut BTreeSet<TaskId>,
        is_due: impl Fn(&FollowedTask) -> bool,
    ) -> Result<(), CommandError> {
        let due = self.tasks.iter().filter(|(id, task)| is_due(task) && fresh.insert(**id)).map(|(id, _)| *id);
        let mut calls = ConcurrentCalls::new();
        for id in due.collect::<Vec<_>>() {
            let (client, queue) = (context.client.clone(), context.queue.clone());
            if let Some(ended) = calls.start(async move { (id, client.task(&queue, id).await) }).await? {
                self.record(ended, outage)?;
            }
        }
        while let Some(ended) = calls.next().await? {
            self.record(ended, outage)?;
        }
        Ok(())
    }

    fn record(&mut self, (id, answer): (TaskId, Result<Task, Error>), outage: &mut Outage) -> Result<(), CommandError> {
        let task = match answer {
            Ok(task) => FollowedTask::Seen(SeenTask::of(&task)),
            Err(error) if error.code() == Some(ErrorCode::TaskNotFound) => {
                if self.tally().missing < MISSING_SHOWN {
                    self.warnings.push(named_tasks::missing(id));
                }
                FollowedTask::Missing
            }
            Err(error) => return Err(error.into()),
        };
        self.tasks.insert(id, task);
        outage.answered(Instant::now());
        Ok(())
    }

    fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for task in self.tasks.values() {
            match task {
                FollowedTask::NotAsked => tally.counts.add(Status::Pending),
                FollowedTask::Seen(task) => tally.counts.add(task.status),
                FollowedTask::Missing => tally.missing += 1,
            }
        }
        tally
    }

    /// Returns the tasks that were in one of these states when they were asked for last, sorted by their ids.
    pub(super) fn among(&self, statuses: Statuses) -> impl Iterator<Item = &SeenTask> {
        self.tasks.values().filter_map(move |task| match task {
            FollowedTask::Seen(task) if statuses.contains(task.status) => Some(task),
            _ => None,
        })
    }
}

/// The warnings are optional: the wait goes on without them.
const CHECK_TIME: Duration = Duration::from_secs(10);
/// Workers come and go; a worker that ended without a word is forgotten after five minutes.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// So many running tasks are looked at each time; the next time goes on behind them.
const TASKS_SEEN: u16 = 20;
/// A worker that lives is heard of every 50 seconds.
const SILENCE_SECONDS: i64 = 60;

/// Running tasks whose workers were not heard of for a while: such a run may be dead, and its task runs again only when its lease is over.
#[derive(Default)]
pub(super) struct SilentRuns {
    warned: BTreeSet<TaskId>,
    checked: Option<Instant>,
    clock: ServerClock,
    /// The rest of the running tasks, where the server selects them.
    walk: Option<Walk<Task>>,
    /// The task that was looked at last, where tasks are followed by their ids.
    latest: Option<TaskId>,
}

/// The moment when the run of a task was last heard of.
#[derive(Clone, Debug)]
struct HeardRun {
    id: TaskId,
    place: Option<String>,
    at: Timestamp,
}

impl SilentRuns {
    /// Returns the warnings that are due now, each task once; none if the server does not tell.
    pub(super) async fn check(&mut self, context: &ClientContext, watched: &WatchedTasks) -> Vec<String> {
        if self.checked.is_some_and(|checked| checked.elapsed() < CHECK_INTERVAL) {
            return Vec::new();
        }
        let mut heard = Vec::new();
        // What was found counts, also when the time is over before all was.
        let _ = timeout(CHECK_TIME, self.look(context, watched, &mut heard)).await;
        let now = Instant::now();
        self.checked = Some(now);
        self.warnings(&heard, now)
    }

    async fn look(&mut self, context: &ClientContext, watched: &WatchedTasks, heard: &mut Vec<HeardRun>) {
        for _ in 0..TASKS_SEEN {
            let Some(task) = self.next_task(context, watched).await else { return };
            self.clock.note(task.updated_at, Instant::now());
            let Ok(explanation) = context.client.explain_task(&context.queue, task.id).await else { continue };
            let reason = explanation.reasons.first().and_then(|reason| reason.reason.as_ref());
            if let Some(Reason::NotPending { last_heard_at: Some(at), .. }) = reason {
                let place = task.last_run.as_ref().and_then(|run| worker_place(&run.worker));
                heard.push(HeardRun { id: task.id, place, at: *at });
            }
        }
    }

    /// Returns the next running task that was not warned of; `None` at the end of a round over all of them. The next round begins with
    /// those that run longest, where the server selects them.
    async fn next_task(&mut self, context: &ClientContext, watched: &WatchedTasks) -> Option<Task> {
        match watched {
            WatchedTasks::Counted(conditions) => {
                let walk = self.walk.get_or_insert_with(|| {
                    let query = TaskQuery::of(conditions.selection().status(Status::Running)).limit(TASKS_SEEN);
                    context.client.walk(&context.queue, query.ascending_by(OrderField::StartedAt))
                });
                while let Ok(Some(task)) = walk.next().await {
                    if !self.warned.contains(&task.id) {
                        return Some(task);
                    }
                }
                self.walk = None;
                None
            }
            WatchedTasks::Followed(followed) => loop {
                self.latest = next_id(followed.among(RUNNING).map(|task| task.id), self.latest, &self.warned);
                if let Ok(task) = context.client.task(&context.queue, self.latest?).await {
                    return Some(task);
                }
            },
        }
    }

    /// Returns what is to be said, which counts as said then.
    fn warnings(&mut self, heard: &[HeardRun], now: Instant) -> Vec<String> {
        heard.iter().for_each(|run| self.clock.note(run.at, now));
        let Some(time) = self.clock.at(now) else { return Vec::new() };
        let due =
            heard.iter().filter_map(|run| Some((run.id, silence_warning(run.id, run.place.as_deref(), run.at, time)?)));
        due.filter(|(id, _)| self.warned.insert(*id)).map(|(_, text)| text).collect()
    }
}

/// Returns the first of these ids, which are sorted, behind the latest one and not warned of.
fn next_id(mut ids: impl Iterator<Item = TaskId>, latest: Option<TaskId>, warned: &BTreeSet<TaskId>) -> Option<TaskId> {
    ids.find(|id| latest.is_none_or(|latest| *id > latest) && !warned.contains(id))
}

/// The time that it is at least for the server: the latest moment that it has named, and what has passed since. The clock of this
/// machine may be another.
#[derive(Debug, Default)]
struct ServerClock(Option<(Timestamp, Instant)>);

impl ServerClock {
    fn note(&mut self, named: Timestamp, now: Instant) {
        if self.at(now).is_none_or(|known| known < named) {
            self.0 = Some((named, now));
        }
    }

    fn at(&self, now: Instant) -> Option<Timestamp> {
        let (named, since) = self.0?;
        let passed = i64::try_from(now.saturating_duration_since(since).as_micros()).unwrap_or(i64::MAX);
        Some(Timestamp::from_micros(named.as_micros().saturating_add(passed)))
    }
}

/// Returns the warning that nothing was heard of the run of a task, if that has been so for long.
fn silence_warning(id: TaskId, place: Option<&str>, heard: Timestamp, now: Timestamp) -> Option<String> {
    let silent = (now.as_micros() - heard.as_micros()) / 1_000_000;
    if silent <= SILENCE_SECONDS {
        return None;
    }
    let worker = place.map_or_else(|| "its worker".to_owned(), |place| format!("its worker, on {place},"));
    let rest = match LEASE_SECONDS - silent {
        left @ 1.. => format!("if it is gone, the task is taken from it within {left}s"),
        _ => "its lease is over".to_owned(),
    };
    Some(format!("{id} is running, but {worker} was not heard of for at least {silent}s; {rest}"))
}

/// Routes that tasks wait for and no live worker serves: such a wait may never end.
#[derive(Debug, Default)]
pub(super) struct UnservedRoutes {
    warned: BTreeSet<String>,
    checked: Option<Instant>,
}

impl UnservedRoutes {
    /// Returns the warnings that are due now, each route once; none if the server does not tell.
    pub(super) async fn check(&mut self, context: &ClientContext, watched: &WatchedTasks) -> Vec<String> {
        if self.checked.is_some_and(|checked| checked.elapsed() < CHECK_INTERVAL) {
            return Vec::new();
        }
        let unserved = timeout(CHECK_TIME, unserved_routes(context, watched)).await;
        self.checked = Some(Instant::now());
        let Ok(Ok(unserved)) = unserved else { return Vec::new() };
        let new = unserved.into_iter().filter(|(route, _)| self.warned.insert(route.clone()));
        new.map(|(route, count)| route_warning(&route, count)).collect()
    }
}

/// Returns the routes of pending tasks that no live worker can claim, with the number of such tasks.
async fn unserved_routes(context: &ClientContext, watched: &WatchedTasks) -> Result<BTreeMap<String, u64>, Error> {
    let (mut served, mut unserved) = (BTreeSet::new(), BTreeMap::new());
    let query = GroupQuery::by([WorkerDimension::Route], WorkerSelection::all());
    let mut walk = context.client.walk(&context.queue, query);
    while let Some(group) = walk.next().await? {
        served.extend(group.key);
    }
    let selection = match watched {
        WatchedTasks::Followed(followed) => {
            return Ok(without_worker(followed.among(PENDING).filter_map(|task| task.routes.as_ref()), &served));
        }
        WatchedTasks::Counted(conditions) => beyond(conditions, &served),
    };
    let Some(selection) = selection else { return Ok(unserved) };
    let query = GroupQuery::by([TaskDimension::Routes], selection.status(Status::Pending));
    let mut walk = context.client.walk(&context.queue, query);
    while let Some(group) = walk.next().await? {
        unserved.extend(group.key.into_iter().map(|route| (route, group.count)));
    }
    Ok(unserved)
}

fn route_warning(route: &str, count: u64) -> String {
    let wait = if count == 1 { "waits" } else { "wait" };
    format!(
        "no live worker serves the route {route}, which {} {wait} for; start one with: taskqueue loop --route {route} -- COMMAND",
        words::count(count, "task")
    )
}

/// Returns the routes of tasks that none of these workers can claim, with the number of such tasks.
fn without_worker<'r>(pending: impl Iterator<Item = &'r Routes>, served: &BTreeSet<String>) -> BTreeMap<String, u64> {
    let mut unserved = BTreeMap::new();
    for routes in pending.filter(|routes| !routes.iter().any(|route| served.contains(route))) {
        routes.iter().for_each(|route| *unserved.entry(route.to_owned()).or_default() += 1);
    }
    unserved
}

/// Returns the selected tasks with none of the served routes; `None` if that takes a longer filter than a server accepts.
fn beyond(conditions: &ConditionArgs, served: &BTreeSet<String>) -> Option<TaskSelection> {
    if served.is_empty() {
        return Some(conditions.selection());
    }
    // Routes have neither quotes nor backslashes.
    let others: Vec<String> = served.iter().map(|route| format!("\"{route}\" not in routes")).collect();
    conditions.filter_and(&others.join(" and ")).map(|filter| conditions.selection().filter(filter))
}

#[cfg(test)]
mod tests {
    use taskqueue_core::ids::Route;

    use super::*;

    #[test]
    fn filters_on_the_definition_outlast_a_run_and_others_do_not() {
        let cases = ["args.lr < 0.1 and 'gpu' in routes", "name == 'x' or id == 't_aaaaaaaaaaaa'", "metadata.a.b == 1"];
        for filter in cases {
            assert!(outlasts_a_run(filter), "{filter}");
        }
        for filter in [
            "status == 'pending'",
            "args.lr == 1 and attempt > 0",
            "exists(result.loss)",
            "(",
            "last_error.type == 'x'",
        ] {
            assert!(!outlasts_a_run(filter), "{filter}");
        }
    }

    #[test]
    fn a_worker_that_was_not_heard_of_for_a_minute_is_named() {
        let (id, now) = (TaskId::parse("t_000000000001").unwrap(), Timestamp::from_micros(1_000_000_000));
        let said = |place, seconds: i64| silence_warning(id, place, now.plus_seconds(-seconds), now);
        assert_eq!(said(None, 60), None);
        let expected = Some(
            "t_000000000001 is running, but its worker, on gpu-3, slot 0, pid 9, was not heard of for at least 75s; if it is \
             gone, the task is taken from it within 225s",
        );
        assert_eq!(said(Some("gpu-3, slot 0, pid 9"), 75).as_deref(), expected);
        assert!(said(None, 310).unwrap().ends_with("its worker was not heard of for at least 310s; its lease is over"));
    }

    fn id(number: u8) -> TaskId {
        TaskId::parse(&format!("t_{number:012}")).unwrap()
    }

    #[test]
    fn the_time_of_the_server_is_what_it_named_and_what_has_passed_since() {
        let (start, time) = (Instant::now(), Timestamp::from_micros(1_000_000_000));
        let mut clock = ServerClock::default();
        assert_eq!(clock.at(start), None);
        clock.note(time, start);
        let later = start + Duration::from_secs(40);
        assert_eq!(clock.at(later), Some(time.plus_seconds(40)));
        clock.note(time.plus_seconds(30), later);
        assert_eq!(clock.at(later), Some(time.plus_seconds(40)), "what was long ago says nothing new");
        clock.note(time.plus_seconds(50), later);
        assert_eq!(clock.at(later), Some(time.plus_seconds(50)));
    }

    #[test]
    fn silence_is_measured_by_the_time_of_the_server_and_said_once() {
        // The server lives long before the clock of this machine.
        let (start, time) = (Instant::now(), Timestamp::from_micros(1_000_000_000));
        let heard = |number, at| HeardRun { id: id(number), place: None, at };
        let mut unheard = SilentRuns::default();
        let first = unheard.warnings(&[heard(1, time), heard(2, time.plus_seconds(61))], start);
        assert!(first.len() == 1 && first[0].starts_with("t_000000000001 is running"), "{first:?}");
        assert_eq!(unheard.warnings(&[heard(1, time)], start), Vec::<String>::new());
        let later = start + Duration::from_secs(61);
        let second = unheard.warnings(&[heard(1, time), heard(2, time.plus_seconds(61))], later);
        assert!(second.len() == 1 && second[0].starts_with("t_000000000002 is running"), "{second:?}");
    }

    #[test]
    fn what_was_not_looked_at_yet_comes_next_and_what_was_warned_of_never_again() {
        let (ids, warned) = ([1, 2, 3, 4].map(id), BTreeSet::from([id(2)]));
        let next = |latest| next_id(ids.into_iter(), latest, &warned);
        assert_eq!([next(None), next(Some(id(1))), next(Some(id(3)))], [Some(id(1)), Some(id(3)), Some(id(4))]);
        assert_eq!(next(Some(id(4))), None, "the round is over");
    }

    fn routes(words: &[&str]) -> Routes {
        Routes::requested(words.iter().filter_map(|word| Route::parse(word)).collect()).unwrap()
    }

    #[test]
    fn a_task_with_one_served_route_waits_for_none() {
        let served: BTreeSet<String> = ["cpu".to_owned()].into();
        let pending = [routes(&["cpu", "gpu"]), routes(&["tpu"]), routes(&["gpu", "tpu"])];
        let expected = [("gpu".to_owned(), 1), ("tpu".to_owned(), 2)].into();
        assert_eq!(without_worker(pending.iter(), &served), expected);
    }

    #[test]
    fn the_server_is_asked_for_the_same_tasks_within_the_length_of_a_filter() {
        let served: BTreeSet<String> = ["a", "b"].map(str::to_owned).into();
        let all = TaskSelection::all();
        let none = ConditionArgs::default();
        assert_eq!(beyond(&none, &BTreeSet::new()), Some(all.clone()));
        let filtered = ConditionArgs { filter: Some("args.x == 1 or args.y == 2".to_owned()), ..none.clone() };
        let expected = "(args.x == 1 or args.y == 2) and \"a\" not in routes and \"b\" not in routes";
        assert_eq!(beyond(&filtered, &served), Some(all.filter(expected)));
        let many: BTreeSet<String> = (0..1000).map(|number| format!("route-{number}")).collect();
        assert_eq!(beyond(&none, &many), None);
    }
}
