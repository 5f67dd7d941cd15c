//! Short ways to say what the tests say a thousand times: identifiers, definitions and commands from plain text.

use std::fmt::Display;

use taskqueue_core::filter::{ObservationFilter, TaskFilter};
use taskqueue_core::fuzzy::FuzzyName;
use taskqueue_core::ids::WorkerId;
use taskqueue_core::json;

use super::prelude::*;

/// Every route of a queue.
pub static ALL_ROUTES: RouteSelection = RouteSelection::first(usize::MAX);

/// The queue of this name.
pub fn queue(name: &str) -> QueueName {
    QueueName::parse(name).unwrap()
}

/// The route of this name.
pub fn route(name: &str) -> Route {
    Route::parse(name).unwrap()
}

/// A task id that ends in `name`; ids sort like names of equal length.
pub fn task_id(name: impl Display) -> TaskId {
    TaskId::parse(&format!("t_{:0>12}", name.to_string())).unwrap()
}

/// A run id that ends in `name`.
pub fn run_id(name: impl Display) -> RunId {
    RunId::parse(&format!("r_{:0>12}", name.to_string())).unwrap()
}

/// A worker id that ends in `name`.
pub fn worker_id(name: impl Display) -> WorkerId {
    WorkerId::parse(&format!("w_{:0>12}", name.to_string())).unwrap()
}

/// A JSON object.
pub fn object(text: &str) -> JsonObject {
    JsonObject::from_value(&json::parse(text.as_bytes()).unwrap()).unwrap()
}

/// An object of exactly that many canonical bytes.
pub fn object_of_bytes(bytes: usize) -> JsonObject {
    object(&format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - r#"{"a":""}"#.len())))
}

/// Args that make the stored data of an otherwise default task exactly as large as allowed, plus `more` bytes.
pub fn args_beyond_the_limit(more: usize) -> JsonObject {
    // The empty args that are counted here make room for the empty result that is not.
    object_of_bytes(TASK_DATA_BYTES - Definition::default().stored_bytes() + more)
}

/// A set of routes.
pub fn routes(names: &[impl AsRef<str>]) -> Routes {
    Routes::new(names.iter().map(|name| route(name.as_ref())).collect()).unwrap()
}

/// A definition with this priority.
pub fn with_priority(priority: i64) -> Definition {
    Definition { priority, ..Definition::default() }
}

/// A definition with this budget.
pub fn with_budget(max_attempts: i64) -> Definition {
    Definition { max_attempts, ..Definition::default() }
}

/// A definition with these routes.
pub fn with_routes(names: &[impl AsRef<str>]) -> Definition {
    Definition { routes: routes(names), ..Definition::default() }
}

/// A definition with this scheduling.
pub fn scheduled(fields: SchedulingFields) -> Definition {
    Definition { scheduling: fields.into(), ..Definition::default() }
}

/// A definition that waits for these tasks.
pub fn waits_for(ids: &[usize]) -> Definition {
    scheduled(SchedulingFields { dependencies: dependencies(ids), ..SchedulingFields::default() })
}

/// The same, and is cancelled if one of them fails.
pub fn cancelled_with(ids: &[usize]) -> Definition {
    let on_dependency_failure = OnDependencyFailure::Cancel;
    let dependencies = dependencies(ids);
    scheduled(SchedulingFields { dependencies, on_dependency_failure, ..SchedulingFields::default() })
}

/// These tasks.
pub fn dependencies(ids: &[usize]) -> Dependencies {
    Dependencies::new(ids.iter().map(task_id).collect()).unwrap()
}

/// Creates a task of `q` that cannot be claimed before.
pub fn create_later(id: impl Display, definition: Definition, not_before: Timestamp) -> CreateTask {
    let new = Box::new(NewTask::new(definition, Some(not_before)));
    CreateTask { queue: queue("q"), id: task_id(id), new }
}

/// Changes the settings of a queue.
pub fn change_settings(in_queue: &str, patch: SettingsPatch) -> ChangeSettings {
    ChangeSettings { queue: queue(in_queue), patch: Box::new(patch) }
}

/// An update of the archive.
pub fn to_archived(archived: bool) -> Update {
    Update { archived: Some(archived), ..Update::default() }
}

/// A definition with this name.
pub fn named(name: &str) -> Definition {
    Definition { name: Some(name.into()), ..Definition::default() }
}

pub fn create_queue(name: &str) -> CreateQueue {
    CreateQueue { queue: queue(name), retention: Retention::default() }
}

pub fn delete_queue(name: &str, cascade: bool) -> DeleteQueue {
    DeleteQueue { queue: queue(name), cascade }
}

/// Creates a task.
pub fn create(in_queue: &str, id: impl Display, definition: Definition) -> CreateTask {
    CreateTask { queue: queue(in_queue), id: task_id(id), new: Box::new(definition.into()) }
}

/// Claims for a route.
pub fn claim(in_queue: &str, for_route: &str, run: impl Display) -> Claim {
    Claim { queue: queue(in_queue), route: route(for_route), run_id: run_id(run), worker: None }
}

/// Claims in `q` for the default route and says who claims.
pub fn claim_by(worker: &str, run: impl Display) -> Claim {
    Claim { worker: Some(object(worker)), ..claim("q", "default", run) }
}

/// Creates tasks with the default definition in `q`.
pub fn create_all(ids: impl IntoIterator<Item = impl Display>) -> CreateTasks {
    let new = |id| (task_id(id), Box::new(Definition::default().into()));
    CreateTasks { queue: queue("q"), tasks: ids.into_iter().map(new).collect() }
}

/// What a task counts in the answer of a claim of several: its args.
pub fn bytes_of_args(claimed: &Claimed) -> usize {
    claimed.task.definition.args.as_str().len()
}

/// Claims in `q` for the default route, with as many bytes as are needed.
pub fn claim_all(runs: impl IntoIterator<Item = impl Display>) -> ClaimTasks {
    let run_ids = runs.into_iter().map(run_id).collect();
    let (queue, route) = (queue("q"), route("default"));
    ClaimTasks {
        queue,
        route,
        run_ids,
        worker: None,
        workers: Vec::new(),
        measure: bytes_of_args,
        most_bytes: usize::MAX,
    }
}

/// Reports several runs of `q` at once.
pub fn report_all(reports: impl IntoIterator<Item = RunItem>) -> ReportRuns {
    ReportRuns { queue: queue("q"), reports: reports.into_iter().collect() }
}

impl From<Heartbeat> for RunItem {
    fn from(Heartbeat { id, run_id, progress, .. }: Heartbeat) -> Self {
        Self { task_id: id, run_id, action: RunAction::Heartbeat { progress } }
    }
}

impl From<ReportProgress> for RunItem {
    fn from(ReportProgress { id, run_id, progress, .. }: ReportProgress) -> Self {
        Self { task_id: id, run_id, action: RunAction::Progress { progress } }
    }
}

impl From<ReportRun> for RunItem {
    fn from(ReportRun { id, run_id, report, .. }: ReportRun) -> Self {
        Self { task_id: id, run_id, action: RunAction::End(report) }
    }
}

fn report(in_queue: &str, id: impl Display, run: impl Display, report: RunReport) -> ReportRun {
    ReportRun { queue: queue(in_queue), id: task_id(id), run_id: run_id(run), report }
}

/// The owner is alive.
pub fn heartbeat(in_queue: &str, id: impl Display, run: impl Display) -> Heartbeat {
    Heartbeat { queue: queue(in_queue), id: task_id(id), run_id: run_id(run), progress: None }
}

/// The owner of a task of `q` says how far it is.
pub fn progress(id: impl Display, run: impl Display, value: &str) -> ReportProgress {
    ReportProgress { queue: queue("q"), id: task_id(id), run_id: run_id(run), progress: object(value) }
}

/// A run of a task of `q` prints; 1,000 bytes of it are kept.
pub fn print(id: impl Display, run: impl Display, offset: u64, text: &str) -> AddOutput {
    AddOutput { queue: queue("q"), id: task_id(id), run_id: run_id(run), offset, text: text.into(), most_bytes: 1_000 }
}

/// The owner is done, with this result.
pub fn complete(in_queue: &str, id: impl Display, run: impl Display, result: JsonObject) -> ReportRun {
    report(in_queue, id, run, RunReport::Complete { result })
}

/// The owner failed.
pub fn fail(in_queue: &str, id: impl Display, run: impl Display) -> ReportRun {
    fail_with(in_queue, id, run, failure("no"))
}

/// The owner failed, and trying again cannot help.
pub fn fail_for_good(in_queue: &str, id: impl Display, run: impl Display) -> ReportRun {
    report(in_queue, id, run, RunReport::Fail { failure: failure("no"), retry: false, retry_after: None })
}

/// The owner failed in this way.
pub fn fail_with(in_queue: &str, id: impl Display, run: impl Display, failure: Failure) -> ReportRun {
    report(in_queue, id, run, RunReport::Fail { failure, retry: true, retry_after: None })
}

/// A failure with this message.
pub fn failure(message: &str) -> Failure {
    Failure { kind: "ValueError".into(), message: message.into(), traceback: None }
}

/// The owner gives the task back.
pub fn unclaim(in_queue: &str, id: impl Display, run: impl Display) -> ReportRun {
    report(in_queue, id, run, RunReport::Unclaim { delay: None })
}

fn act(in_queue: &str, id: impl Display, action: TaskAction) -> ActOnTask {
    ActOnTask { queue: queue(in_queue), id: task_id(id), action }
}

/// Takes a task out.
pub fn cancel(in_queue: &str, id: impl Display) -> ActOnTask {
    act(in_queue, id, TaskAction::Cancel)
}

/// Starts a task over.
pub fn requeue(in_queue: &str, id: impl Display) -> ActOnTask {
    act(in_queue, id, TaskAction::Requeue)
}

/// Deletes a task.
pub fn delete(in_queue: &str, id: impl Display) -> DeleteTask {
    DeleteTask { queue: queue(in_queue), id: task_id(id) }
}

/// Updates one task.
pub fn update(in_queue: &str, id: impl Display, update: Update) -> UpdateTask {
    UpdateTask { queue: queue(in_queue), id: task_id(id), update: Box::new(update) }
}

/// Updates many tasks.
pub fn update_all(in_queue: &str, which: &str, update: Update) -> BulkUpdate {
    BulkUpdate { queue: queue(in_queue), selection: Update::selection(task_filter(which), false), update }
}

/// Acts on all tasks that match, without expecting anything.
pub fn act_on_all(in_queue: &str, action: BulkAction, which: &str) -> ActOnTasks {
    let (queue, selection) = (queue(in_queue), action.selection(task_filter(which), false));
    ActOnTasks { queue, action, selection, expect: None, dry_run: false }
}

/// An update of the priority.
pub fn to_priority(priority: i64) -> Update {
    Update { priority: Some(priority), ..Update::default() }
}

/// An update of the budget.
pub fn to_budget(max_attempts: i64) -> Update {
    Update { max_attempts: Some(max_attempts), ..Update::default() }
}

/// An update of the routes.
pub fn to_routes(names: &[impl AsRef<str>]) -> Update {
    Update { routes: Some(routes(names)), ..Update::default() }
}

/// A worker reports itself.
pub fn observe(in_queue: &str, id: impl Display, for_route: &str, status: WorkerStatus) -> ReportWorker {
    ReportWorker { queue: queue(in_queue), id: worker_id(id), report: worker_report(for_route, status) }
}

/// What a worker without a task reports.
pub fn worker_report(for_route: &str, status: WorkerStatus) -> Report {
    Report { route: route(for_route), status, task_id: None, metadata: JsonObject::empty() }
}

/// A worker of `q` measures.
pub fn measure(id: impl Display, telemetry: &str) -> ReportTelemetry {
    ReportTelemetry { queue: queue("q"), id: worker_id(id), telemetry: object(telemetry) }
}

/// A worker goes away.
pub fn withdraw(in_queue: &str, id: impl Display) -> WithdrawWorker {
    WithdrawWorker { queue: queue(in_queue), id: worker_id(id) }
}

/// A filter over tasks.
pub fn task_filter(text: &str) -> TaskFilter {
    TaskFilter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A filter over observations.
pub fn observation_filter(text: &str) -> ObservationFilter {
    ObservationFilter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Everything.
pub fn all() -> TaskSelection {
    TaskSelection::default()
}

/// Tasks of one status.
pub fn of_status(status: Status) -> TaskSelection {
    TaskSelection { status: Some(status), ..TaskSelection::default() }
}

/// Tasks that a filter matches.
pub fn filtered(text: &str) -> TaskSelection {
    TaskSelection { filter: Some(task_filter(text)), ..TaskSelection::default() }
}

/// Tasks whose name a fuzzy search finds.
pub fn fuzzy(text: &str) -> TaskSelection {
    TaskSelection { name_fuzzy: Some((text.to_owned(), FuzzyName::parse(text).unwrap())), ..TaskSelection::default() }
}

/// The order by id.
pub const BY_ID: TaskOrder = TaskOrder { field: OrderField::Id, descending: false };

/// Created, claimed, succeeded, failed, released, expired, cancelled.
pub fn numbers(counts: &Counts) -> [u64; 7] {
    Event::ALL.map(|event| counts.of(event))
}
