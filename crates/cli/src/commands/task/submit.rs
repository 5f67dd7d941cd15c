//! `task submit`, which creates one task from flags or many from a file, and `task sweep`, which creates one for each combination of values.
//! Many tasks are created by batches, a few at a time. They come from a file or a sweep (`planned_tasks.rs`). Ctrl-C ends it with a message that
//! says how far it came.

use std::collections::BTreeSet;
use std::path::Path;

use taskqueue_api::task_line::LineReader;
use taskqueue_client::{
    Client, CreateOutcome, Creation, Definition, Error, ErrorCode, JsonObject, QueueName, Scheduling, TaskId, Timestamp,
};
use taskqueue_core::derived_ids::DerivedIds;
use taskqueue_core::fields::{TimeComparison, different_fields};
use taskqueue_core::name_template::NameTemplate;
use taskqueue_core::sweep::Sweep;
use taskqueue_core::task_view::TaskView;
use taskqueue_core::words;

use super::concurrent_calls::{ConcurrentCalls, TaskError, interrupts};
use super::dry_run::CreationPreview;
use super::named_tasks::{self, random_id};
use super::planned_tasks::{Origin, PlannedTask, Refusals, TaskDefaults, TaskGroup, read_lines};
use crate::args::{SchedulingArgs, SubmitArgs, SweepArgs};
use crate::config::ClientContext;
use crate::failure::{CommandError, Failure, to_failure};
use crate::json_args::{self, named_definition, no_name, not_before};
use crate::output::{self, Progress, Summary};

/// Creates one task from flags, or many from a file.
pub(super) async fn run(context: &ClientContext, args: &SubmitArgs) -> Result<(), CommandError> {
    if let Some(path) = &args.from { from_file(context, path, args).await } else { one(context, args).await }
}

async fn one(context: &ClientContext, args: &SubmitArgs) -> Result<(), CommandError> {
    let mut definition = json_args::definition(&args.definition, json_args::args_object(&args.object)?)?;
    if args.batch.is_some() {
        return Err(
            Failure::Usage("--batch is for --from; a task of its own gets a new id each time".to_owned()).into()
        );
    }
    let id = args.id.map_or_else(random_id, Ok)?;
    definition.scheduling = scheduling(context, &args.scheduling).await?;
    let creation = Creation { definition, not_before: not_before(&args.scheduling, output::now()) };
    if args.dry_run {
        let mut preview = CreationPreview::new(context);
        preview.add(Ok(TaskDefaults::default().task(id, false, creation, Origin { kind: "line", number: 1 })))?;
        return preview.finish();
    }
    // A task as the contract has it needs no second request.
    if creation.not_before.is_some() || creation.definition.scheduling != Scheduling::default() {
        context.client.require_extensions().await?;
    }
    let created = context.client.create_task(&context.queue, id, &creation).await?;
    let word = if created.created { "created" } else { "already there" };
    Ok(context.printer.done(&created.value, &format!("{id} {word}"))?)
}

/// Returns what the flags say, with the tasks that are waited for.
async fn scheduling(context: &ClientContext, args: &SchedulingArgs) -> Result<Scheduling, CommandError> {
    Ok(json_args::scheduling(args, named_tasks::awaited(context, args).await?)?)
}

async fn from_file(context: &ClientContext, path: &Path, args: &SubmitArgs) -> Result<(), CommandError> {
    let (name, mut definition) = named_definition(&args.definition)?;
    definition.scheduling = scheduling(context, &args.scheduling).await?;
    let (ids, not_before) = (DerivedIds::new(args.batch.as_deref()), not_before(&args.scheduling, output::now()));
    let given = TaskDefaults::by(args.batch.as_deref(), &args.scheduling, not_before);
    let mut lines = read_lines(path, LineReader::new(name, Creation { definition, not_before }, ids), given)?;
    if args.dry_run {
        let mut preview = CreationPreview::new(context);
        while let Some(group) = lines.receiver.recv().await {
            group?.tasks.into_iter().try_for_each(|task| preview.add(task))?;
        }
        return preview.finish();
    }
    let progress = match lines.bytes {
        Some(bytes) => Progress::of_bytes("submitting", bytes),
        None => Progress::spinner("submitting"),
    };
    create_many(context, progress, async |creator| {
        while let Some(group) = lines.receiver.recv().await {
            creator.add(group?).await?;
        }
        Ok(())
    })
    .await
}

/// A sweep, and what its tasks have in common.
#[derive(Debug)]
struct SweepPlan<'a> {
    sweep: Sweep<'a>,
    name: Option<NameTemplate>,
    /// What all tasks have beside args and name.
    definition: Definition,
    not_before: Option<Timestamp>,
    given: TaskDefaults,
}

/// Creates a task for each combination of values.
pub(super) async fn run_sweep(context: &ClientContext, args: &SweepArgs) -> Result<(), CommandError> {
    let mut plan = SweepPlan::new(args)?;
    plan.check_names()?;
    plan.definition.scheduling = scheduling(context, &args.scheduling).await?;
    if args.dry_run {
        let mut preview = CreationPreview::new(context);
        plan.tasks().try_for_each(|planned| preview.add(Ok(planned?)))?;
        return preview.finish();
    }
    let progress = Progress::of_tasks("submitting", plan.sweep.count() as u64);
    create_many(context, progress, async |creator| {
        let mut group = TaskGroup::default();
        for planned in plan.tasks() {
            let planned = planned?;
            let end = planned.origin.number;
            if let Some(full) = group.push(Ok(planned), end) {
                creator.add(full).await?;
            }
        }
        creator.add(group).await
    })
    .await
}

impl<'a> SweepPlan<'a> {
    fn new(args: &'a SweepArgs) -> Result<Self, Failure> {
        let (name, definition) = named_definition(&args.definition)?;
        let sweep = json_args::sweep(args.args.as_deref(), &args.arg, args.zip)?;
        let not_before = not_before(&args.scheduling, output::now());
        let given = TaskDefaults::by(args.batch.as_deref(), &args.scheduling, not_before);
        Ok(Self { sweep, name, definition, not_before, given })
    }

    /// Finds a name that cannot be before the first task is created.
    fn check_names(&self) -> Result<(), Failure> {
        let Some(name) = self.name.as_ref().filter(|name| name.has_placeholders()) else { return Ok(()) };
        self.sweep.combinations().try_for_each(|args| name.fill(&args).map(drop).map_err(|error| no_name(&error)))
    }

    fn tasks(&self) -> impl Iterator<Item = Result<PlannedTask, Failure>> {
        let mut ids = DerivedIds::new(self.given.label.as_deref());
        self.sweep.combinations().enumerate().map(move |(index, args)| {
            let definition = self.definition(args)?;
            let id = ids.next(&definition);
            let creation = Creation { definition, not_before: self.not_before };
            Ok(self.given.task(id, true, creation, Origin { kind: "combination", number: index as u64 + 1 }))
        })
    }

    fn definition(&self, args: JsonObject) -> Result<Definition, Failure> {
        let name = self.name.as_ref().map(|name| name.fill(&args)).transpose().map_err(|error| no_name(&error))?;
        Ok(Definition { name, args, ..self.definition.clone() })
    }
}

/// Enough that the server always has one to work on.
const BATCHES_MAX: usize = 4;

/// The result of one batch.
#[derive(Debug)]
struct BatchResult {
    /// The place of its first task.
    place: u64,
    /// How far the command has come with its last task.
    end: u64,
    tasks: Result<Vec<CreateResult>, Failure>,
}

/// Tasks that are being created.
#[derive(Debug)]
pub(super) struct TaskCreator<'s> {
    context: &'s ClientContext,
    calls: ConcurrentCalls<BatchResult>,
    /// The places of the calls under way.
    open: BTreeSet<u64>,
    progress: Progress,
    position: u64,
    created: u64,
    existing: u64,
    different: u64,
    different_fields: BTreeSet<&'static str>,
    refusals: Refusals,
}

/// Creates what `feed` adds, waits for the last results and prints the summary. On Ctrl-C it ends at once.
async fn create_many<F>(context: &ClientContext, progress: Progress, feed: F) -> Result<(), CommandError>
where
    F: AsyncFnOnce(&mut TaskCreator<'_>) -> Result<(), CommandError>,
{
    let mut interrupt = interrupts()?;
    let mut creator = TaskCreator::new(context, progress);
    let is_interrupted = tokio::select! {
        outcome = async {
            context.client.require_extensions().await?;
            feed(&mut creator).await?;
            while let Some(result) = creator.calls.next().await? {
                creator.record(result)?;
            }
            Ok::<(), CommandError>(())
        } => {
            outcome?;
            false
        }
        _ = interrupt.recv() => true,
    };
    if is_interrupted { Err(creator.interrupted().into()) } else { creator.finish() }
}

impl<'s> TaskCreator<'s> {
    fn new(context: &'s ClientContext, progress: Progress) -> Self {
        Self {
            context,
            calls: ConcurrentCalls::of_at_most(BATCHES_MAX),
            open: BTreeSet::new(),
            progress,
            position: 0,
            created: 0,
            existing: 0,
            different: 0,
            different_fields: BTreeSet::new(),
            refusals: Refusals::default(),
        }
    }

    /// Creates a group of tasks. Waits first while too many calls are running.
    pub(super) async fn add(&mut self, group: TaskGroup) -> Result<(), CommandError> {
        let TaskGroup { tasks, end, .. } = group;
        let mut planned = Vec::with_capacity(tasks.len());
        for task in tasks {
            match task {
                Ok(task) => planned.push(task),
                Err(wrong) => self.refusals.add(wrong.origin, || wrong.reason),
            }
        }
        let Some(place) = planned.first().map(|first| first.origin.number) else {
            self.print_known_refusals();
            return Ok(());
        };
        // First, so that no refusal behind it is printed while it waits for another call to end.
        self.open.insert(place);
        let tasks = create_batch(self.context.client.clone(), self.context.queue.clone(), planned);
        let ended = self.calls.start(async move { BatchResult { place, end, tasks: tasks.await } }).await?;
        if let Some(result) = ended { self.record(result) } else { Ok(()) }
    }

    fn record(&mut self, BatchResult { place, end, tasks }: BatchResult) -> Result<(), CommandError> {
        let mut fatal = None;
        for (origin, outcome) in tasks? {
            let error = self.count(origin, outcome);
            fatal = fatal.or(error);
        }
        if let Some(error) = fatal {
            self.count_ended();
            if self.created + self.existing > 0 {
                // The same command can continue from there.
                let done = self.summary().sentence();
                self.progress.suspend(|| output::note(&format!("{done} so far; run the same command again to go on")));
            }
            return Err(error.into());
        }
        self.position = self.position.max(end);
        self.progress.set_position(self.position);
        self.progress.set_message(|| self.summary().sentence());
        self.open.remove(&place);
        self.print_known_refusals();
        Ok(())
    }

    /// Counts what became of a task. Returns the error if every other call would fail, too.
    fn count(&mut self, origin: Origin, outcome: Result<CreationOutcome, Error>) -> Option<Error> {
        let reason = |error: &Error| to_failure(self.context, error).message().unwrap_or_default().to_owned();
        match outcome.map_err(TaskError::of) {
            Ok(CreationOutcome::Answered(CreateOutcome::Created)) => self.created += 1,
            Ok(CreationOutcome::Answered(CreateOutcome::Existing)) => self.existing += 1,
            Ok(CreationOutcome::Different(fields)) => {
                self.different += 1;
                self.different_fields.extend(fields);
            }
            Err(TaskError::Fatal(error)) => return Some(error),
            Err(TaskError::Refused(error)) => self.refusals.add(origin, || reason(&error)),
            Err(TaskError::Skipped(code)) => self.refusals.add(origin, || code.as_str().to_owned()),
        }
        None
    }

    /// Prints the refusals before which no answer is missing.
    fn print_known_refusals(&mut self) {
        let lines = self.refusals.take_before(self.open.first().copied().unwrap_or(u64::MAX));
        if !lines.is_empty() {
            self.progress.suspend(|| lines.iter().for_each(|line| output::warning(line)));
        }
    }

    /// Counts what else was answered already, and prints all refusals that are known. What failed fails again at the next try.
    fn count_ended(&mut self) {
        while let Some(Ok(BatchResult { tasks, .. })) = self.calls.running.try_join_next() {
            let tasks = tasks.unwrap_or_default().into_iter();
            tasks.for_each(|(origin, outcome)| drop(self.count(origin, outcome)));
        }
        self.open.clear();
        self.print_known_refusals();
    }

    /// Calls that go on are given up: their tasks may have been created or not, and the next try finds out.
    fn interrupted(mut self) -> Failure {
        self.count_ended();
        let done = self.summary().sentence();
        let open = match self.calls.running.len() {
            0 => String::new(),
            count => format!(" ({} not answered yet)", words::count(count as u64, "request")),
        };
        Failure::Interrupted(format!("interrupted: {done} so far{open}; run the same command again to go on"))
    }

    /// Prints the summary.
    fn finish(mut self) -> Result<(), CommandError> {
        self.open.clear();
        self.print_known_refusals();
        let (summary, refusals) = (self.summary(), self.refusals);
        drop(self.progress);
        if refusals.not_shown() > 0 {
            output::warning(&format!("{} more were refused", refusals.not_shown()));
        }
        self.context.printer.done(&summary, &summary.sentence())?;
        if self.different > 0 {
            let (count, fields) = (self.different, self.different_fields.into_iter().collect::<Vec<_>>().join(", "));
            return Err(Failure::Refused(format!(
                "{count} {} already there with another definition ({fields}); `taskqueue task update ...` changes them, --batch LABEL makes \
                 new ones",
                if count == 1 { "is" } else { "are" }
            ))
            .into());
        }
        if refusals.count == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
    }

    fn summary(&self) -> Summary {
        Summary::of([
            ("created", self.created),
            ("already_there", self.existing),
            ("different", self.different),
            ("refused", self.refusals.count),
        ])
    }
}

/// Tasks of a batch that are compared at the same time or, if the batch is too large for a proxy, created with a request each. All batches
/// under way together have as many calls as other commands.
const SINGLE_CALLS_MAX: usize = 16;

/// The outcome for a task that was to be created.
#[derive(Debug)]
enum CreationOutcome {
    Answered(CreateOutcome),
    /// There is a task with the derived id, and these fields of it are different.
    Different(Vec<&'static str>),
}

/// The origin of a task, and what became of it.
type CreateResult = (Origin, Result<CreationOutcome, Error>);

/// Creates the tasks with one request, and gives their results in any order. A request that fails is the error of each of them, except where
/// a proxy finds it too large: then they are created one by one, up to an error that all others would have, too.
async fn create_batch(
    client: Client,
    queue: QueueName,
    planned: Vec<PlannedTask>,
) -> Result<Vec<CreateResult>, Failure> {
    let planned: Vec<(TaskId, PlannedTask)> = planned.into_iter().map(|task| (task.id, task)).collect();
    let answer = client.create_tasks(&queue, &planned).await;
    let is_too_large = answer.request_error.as_ref().is_some_and(Error::is_too_large);
    let (mut results, mut calls) = (Vec::with_capacity(planned.len()), ConcurrentCalls::of_at_most(SINGLE_CALLS_MAX));
    for ((_, task), outcome) in planned.into_iter().zip(answer.items) {
        let (client, queue) = (client.clone(), queue.clone());
        let ended = match outcome.map(CreationOutcome::Answered) {
            _ if is_too_large => calls.start(create_one(client, queue, task)).await?,
            Err(error) if is_conflict(&task, &error) => calls.start(compare(client, queue, task)).await?,
            outcome => Some((task.origin, outcome)),
        };
        let is_last = is_too_large && ended.as_ref().is_some_and(|(_, outcome)| outcome.as_ref().is_err_and(is_fatal));
        results.extend(ended);
        if is_last {
            break;
        }
    }
    while let Some(ended) = calls.next().await? {
        results.push(ended);
    }
    Ok(results)
}

async fn create_one(client: Client, queue: QueueName, task: PlannedTask) -> CreateResult {
    match client.create_task(&queue, task.id, &task.creation).await {
        Ok(answer) => {
            let outcome = if answer.created { CreateOutcome::Created } else { CreateOutcome::Existing };
            (task.origin, Ok(CreationOutcome::Answered(outcome)))
        }
        Err(error) if is_conflict(&task, &error) => compare(client, queue, task).await,
        Err(error) => (task.origin, Err(error)),
    }
}

/// Compares with the task as it is now: what another definition created may have been updated to this one since.
async fn compare(client: Client, queue: QueueName, task: PlannedTask) -> CreateResult {
    let PlannedTask { id, creation, is_delayed, origin, .. } = task;
    let times = if is_delayed { TimeComparison::Presence } else { TimeComparison::Exact };
    let wanted = TaskView::planned(id, &creation.definition, creation.not_before);
    let fields = client.task(&queue, id).await.map(|task| different_fields(&task.view(), &wanted, times));
    let compared = |fields: Vec<_>| match fields.is_empty() {
        true => CreationOutcome::Answered(CreateOutcome::Existing),
        false => CreationOutcome::Different(fields),
    };
    (origin, fields.map(compared))
}

fn is_conflict(task: &PlannedTask, error: &Error) -> bool {
    task.is_derived && error.code() == Some(ErrorCode::TaskIdConflict)
}

fn is_fatal(error: &Error) -> bool {
    matches!(TaskError::of(error.clone()), TaskError::Fatal(_))
}
