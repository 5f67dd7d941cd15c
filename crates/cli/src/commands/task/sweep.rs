//! `task sweep`: a task for each combination of values.

use super::create_many::{PlannedTask, TaskCreator};
use crate::args::SweepArgs;
use crate::client_context::ClientContext;
use crate::failure::CommandError;
use crate::json_args;
use crate::output::{self, PlannedRecord};
use crate::progress::Progress;
use crate::sweep::Sweep;
use crate::task_ids::DerivedIds;

pub(super) async fn run(context: &ClientContext, args: &SweepArgs) -> Result<(), CommandError> {
    let sweep = Sweep::parse(&args.arg)?;
    let mut ids = DerivedIds::default();
    let planned = sweep.combinations().enumerate().map(|(index, combination)| {
        let definition = json_args::definition(&args.definition, combination?)?;
        let id = ids.next(&definition);
        Ok::<_, CommandError>(PlannedTask { id, definition, origin: format!("combination {}", index + 1) })
    });
    if args.dry_run { show(context, planned) } else { create(context, planned, sweep.count()).await }
}

fn show(
    context: &ClientContext,
    planned: impl Iterator<Item = Result<PlannedTask, CommandError>>,
) -> Result<(), CommandError> {
    let mut listing = context.printer.listing::<PlannedRecord<'_>>();
    let mut count = 0_u64;
    for planned in planned {
        let PlannedTask { id, definition, .. } = planned?;
        listing.push(&PlannedRecord { id, definition: &definition })?;
        count += 1;
    }
    listing.finish()?;
    output::note(&format!("{count} tasks, none of them created"));
    Ok(())
}

async fn create(
    context: &ClientContext,
    planned: impl Iterator<Item = Result<PlannedTask, CommandError>>,
    count: usize,
) -> Result<(), CommandError> {
    let mut creator = TaskCreator::new(context, Progress::of_tasks("submitting", count as u64));
    for (index, planned) in planned.enumerate() {
        creator.add(planned?).await?;
        creator.advance(index as u64 + 1);
    }
    creator.finish().await
}
