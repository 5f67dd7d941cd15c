//! `task submit`: one task from flags, or many from a file.

use std::path::Path;

use super::create_many::{PlannedTask, TaskCreator};
use super::jsonl::{self, Line};
use crate::args::SubmitArgs;
use crate::client_context::ClientContext;
use crate::failure::CommandError;
use crate::json_args;
use crate::progress::Progress;
use crate::task_ids::random_id;

pub(super) async fn run(context: &ClientContext, args: &SubmitArgs) -> Result<(), CommandError> {
    match &args.from {
        Some(path) => from_file(context, path).await,
        None => one(context, args).await,
    }
}

async fn one(context: &ClientContext, args: &SubmitArgs) -> Result<(), CommandError> {
    let definition = json_args::definition(&args.definition, json_args::args_object(&args.object)?)?;
    let id = args.id.map_or_else(random_id, Ok)?;
    let created = context.client.create_task(&context.queue, id, &definition).await?;
    let word = if created.created { "created" } else { "already there" };
    Ok(context.printer.done(&created.value, &format!("{id} {word}"))?)
}

async fn from_file(context: &ClientContext, path: &Path) -> Result<(), CommandError> {
    let mut lines = jsonl::read(path)?;
    let progress = match lines.bytes {
        Some(bytes) => Progress::of_bytes("submitting", bytes),
        None => Progress::spinner("submitting"),
    };
    let mut creator = TaskCreator::new(context, progress);
    while let Some(line) = lines.receiver.recv().await {
        let Line { number, end, task } = line?;
        let origin = format!("line {number}");
        match task {
            Ok((id, definition)) => creator.add(PlannedTask { id, definition, origin }).await?,
            Err(reason) => creator.refuse(&origin, &reason),
        }
        creator.advance(end);
    }
    creator.finish().await
}
