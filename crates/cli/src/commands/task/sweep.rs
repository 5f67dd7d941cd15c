//! `task sweep`: a task for each combination of values.

use super::create_many::{Creation, Planned};
use crate::args::SweepArgs;
use crate::failure::Stop;
use crate::json_args;
use crate::output::{self, PlannedRecord};
use crate::progress::Progress;
use crate::session::Session;
use crate::sweep::Sweep;
use crate::task_ids::DerivedIds;

pub(super) async fn run(session: &Session, args: &SweepArgs) -> Result<(), Stop> {
    let sweep = Sweep::parse(&args.arg)?;
    let mut ids = DerivedIds::default();
    let planned = sweep.combinations().enumerate().map(|(index, combination)| {
        let definition = json_args::definition(&args.definition, combination?)?;
        let id = ids.next(&definition);
        Ok::<_, Stop>(Planned { id, definition, place: format!("combination {}", index + 1) })
    });
    if args.dry_run { show(session, planned) } else { create(session, planned, sweep.count()).await }
}

fn show(session: &Session, planned: impl Iterator<Item = Result<Planned, Stop>>) -> Result<(), Stop> {
    let mut listing = session.printer.listing::<PlannedRecord<'_>>();
    let mut count = 0_u64;
    for planned in planned {
        let Planned { id, definition, .. } = planned?;
        listing.push(&PlannedRecord { id, definition: &definition })?;
        count += 1;
    }
    listing.finish()?;
    output::note(&format!("{count} tasks, none of them created"));
    Ok(())
}

async fn create(
    session: &Session,
    planned: impl Iterator<Item = Result<Planned, Stop>>,
    count: usize,
) -> Result<(), Stop> {
    let mut creation = Creation::new(session, Progress::of_tasks("submitting", count as u64));
    for (index, planned) in planned.enumerate() {
        creation.add(planned?).await?;
        creation.advance(index as u64 + 1);
    }
    creation.finish().await
}
