//! `task sweep`: a task for each combination of values.

use taskqueue_client::{Creation, Definition, JsonObject, Timestamp};
use taskqueue_core::name_template::NameTemplate;
use taskqueue_core::sweep::Sweep;

use super::create_many;
use super::dry_run::DryRun;
use super::planned_task::{Given, Origin, PlannedTask, TaskGroup};
use super::submit::scheduling;
use crate::args::SweepArgs;
use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::name_template::{named_definition, no_name};
use crate::output;
use crate::progress::Progress;
use crate::scheduling_args::not_before;
use crate::sweep;
use crate::task_ids::DerivedIds;

/// What makes tasks of a sweep.
#[derive(Debug)]
struct Plan<'a> {
    sweep: Sweep<'a>,
    name: Option<NameTemplate>,
    /// What all tasks have beside args and name.
    definition: Definition,
    not_before: Option<Timestamp>,
    given: Given,
}

pub(super) async fn run(context: &ClientContext, args: &SweepArgs) -> Result<(), CommandError> {
    let mut plan = Plan::new(args)?;
    plan.check_names()?;
    plan.definition.scheduling = scheduling(context, &args.scheduling).await?;
    if args.dry_run {
        let mut dry_run = DryRun::new(context);
        plan.tasks().try_for_each(|planned| dry_run.add(&planned?))?;
        return dry_run.finish();
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

impl<'a> Plan<'a> {
    fn new(args: &'a SweepArgs) -> Result<Self, Failure> {
        let (name, definition) = named_definition(&args.definition)?;
        let sweep = sweep::parse(args.args.as_deref(), &args.arg, args.zip)?;
        let not_before = not_before(&args.scheduling, output::now());
        let given = Given::by(args.batch.as_deref(), &args.scheduling, not_before);
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
