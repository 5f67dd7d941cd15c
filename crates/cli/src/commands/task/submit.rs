//! `task submit`: one task from flags, or many from a file.

use std::path::Path;

use taskqueue_api::task_line::LineReader;
use taskqueue_client::{Creation, Scheduling};

use super::awaited_tasks;
use super::create_many;
use super::dry_run::DryRun;
use super::jsonl;
use super::planned_task::{Given, Origin};
use crate::args::{SchedulingArgs, SubmitArgs};
use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::json_args;
use crate::name_template::named_definition;
use crate::output;
use crate::progress::Progress;
use crate::scheduling_args::{self, not_before};
use crate::task_ids::{DerivedIds, random_id};

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
        let mut dry_run = DryRun::new(context);
        dry_run.add(&Given::default().task(id, false, creation, Origin::Flags))?;
        return dry_run.finish();
    }
    // A task as the contract has it needs no second request.
    if creation.not_before.is_some() || creation.definition.scheduling != Scheduling::default() {
        context.client.require_extensions().await?;
    }
    let created = context.client.create_task(&context.queue, id, &creation).await?;
    let word = if created.created { "created" } else { "already there" };
    Ok(context.printer.done(&created.value, &format!("{id} {word}"))?)
}

/// What the flags say, with the tasks that are waited for.
pub(super) async fn scheduling(context: &ClientContext, args: &SchedulingArgs) -> Result<Scheduling, CommandError> {
    Ok(scheduling_args::scheduling(args, awaited_tasks::find(context, args).await?)?)
}

async fn from_file(context: &ClientContext, path: &Path, args: &SubmitArgs) -> Result<(), CommandError> {
    let (name, mut definition) = named_definition(&args.definition)?;
    definition.scheduling = scheduling(context, &args.scheduling).await?;
    let (ids, not_before) = (DerivedIds::new(args.batch.as_deref()), not_before(&args.scheduling, output::now()));
    let given = Given::by(args.batch.as_deref(), &args.scheduling, not_before);
    let mut lines = jsonl::read(path, LineReader::new(name, Creation { definition, not_before }, ids), given)?;
    if args.dry_run {
        let mut dry_run = DryRun::new(context);
        while let Some(group) = lines.receiver.recv().await {
            for task in group?.tasks {
                match task {
                    Ok(planned) => dry_run.add(&planned)?,
                    Err(wrong) => dry_run.refuse(wrong.origin, &wrong.reason),
                }
            }
        }
        return dry_run.finish();
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
