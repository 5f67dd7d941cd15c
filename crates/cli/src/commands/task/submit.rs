//! `task submit`, which creates one task from flags or many from a file, and `task sweep`, which creates one for each combination of values.

use std::path::Path;

use taskqueue_api::task_line::LineReader;
use taskqueue_client::{Creation, Definition, JsonObject, Scheduling, Timestamp};
use taskqueue_core::derived_ids::DerivedIds;
use taskqueue_core::name_template::NameTemplate;
use taskqueue_core::sweep::Sweep;

use super::create_many;
use super::dry_run::CreationPreview;
use super::named_tasks::{self, random_id};
use super::planned_tasks::{Origin, PlannedTask, TaskDefaults, TaskGroup, read_lines};
use crate::args::{SchedulingArgs, SubmitArgs, SweepArgs};
use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::json_args::{self, named_definition, no_name};
use crate::output;
use crate::progress::Progress;
use crate::update_args::{self, not_before};

/// Creates one task from flags, or many from a file.
pub(super) async fn run(context: &ClientContext, args: &SubmitArgs) -> Result<(), CommandError> {
    match &args.from {
        Some(path) => from_file(context, path, args).await,
        None => one(context, args).await,
    }
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
        preview.add(Ok(TaskDefaults::default().task(id, false, creation, Origin::Line(1))))?;
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
    Ok(update_args::scheduling(args, named_tasks::awaited(context, args).await?)?)
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
    create_many::create(context, progress, async |creator| {
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
    create_many::create(context, progress, async |creator| {
        let mut group = TaskGroup::default();
        for planned in plan.tasks() {
            let planned = planned?;
            let end = planned.origin.number();
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
            Ok(self.given.task(id, true, creation, Origin::Combination(index as u64 + 1)))
        })
    }

    fn definition(&self, args: JsonObject) -> Result<Definition, Failure> {
        let name = self.name.as_ref().map(|name| name.fill(&args)).transpose().map_err(|error| no_name(&error))?;
        Ok(Definition { name, args, ..self.definition.clone() })
    }
}
