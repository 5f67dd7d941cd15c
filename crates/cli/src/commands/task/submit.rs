//! `task submit`: one task from flags, or many from a file.

use std::path::Path;

use super::create_many::{PlannedTask, TaskCreator};
use super::jsonl::{self, Line};
use crate::args::SubmitArgs;
use crate::failure::CommandError;
use crate::json_args;
use crate::progress::Progress;
use crate::session::Session;
use crate::task_ids::random_id;

pub(super) async fn run(session: &Session, args: &SubmitArgs) -> Result<(), CommandError> {
    match &args.from {
        Some(path) => from_file(session, path).await,
        None => one(session, args).await,
    }
}

async fn one(session: &Session, args: &SubmitArgs) -> Result<(), CommandError> {
    let definition = json_args::definition(&args.definition, json_args::args_object(&args.object)?)?;
    let id = args.id.map_or_else(random_id, Ok)?;
    let created = session.client.create_task(&session.queue, id, &definition).await?;
    let word = if created.created { "created" } else { "already there" };
    Ok(session.printer.done(&created.value, &format!("{id} {word}"))?)
}

async fn from_file(session: &Session, path: &Path) -> Result<(), CommandError> {
    let mut lines = jsonl::read(path)?;
    let progress = match lines.bytes {
        Some(bytes) => Progress::of_bytes("submitting", bytes),
        None => Progress::spinner("submitting"),
    };
    let mut creator = TaskCreator::new(session, progress);
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
