//! `task rerun`: submits ended tasks again under new ids. The originals stay as they are.

use std::collections::{BTreeSet, HashMap};

use taskqueue_client::{Definition, Error, ErrorCode, OrderField, Task, TaskId, TaskQuery};

use super::bulk_change::{Change, note_no_match};
use super::concurrent_calls::ConcurrentCalls;
use super::status_counts::StatusCounts;
use crate::args::RerunArgs;
use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::output::{self, RerunRecord};
use crate::progress::Progress;
use crate::task_ids::random_id;

/// The largest page.
const PAGE_LIMIT: u16 = 1000;

pub(super) async fn run(context: &ClientContext, args: &RerunArgs) -> Result<(), CommandError> {
    match args.target.ids.as_slice() {
        [] => rerun_selection(context, args).await,
        ids => rerun_ids(context, ids).await,
    }
}

/// Every named task has to be submitted again; one that cannot be makes the command fail.
async fn rerun_ids(context: &ClientContext, ids: &[TaskId]) -> Result<(), CommandError> {
    let mut copies = Copies::new(context, ids.len() as u64);
    let (mut is_complete, mut seen) = (true, BTreeSet::new());
    for id in ids.iter().filter(|id| seen.insert(**id)) {
        let refusal = match context.client.task(&context.queue, *id).await {
            Ok(task) if Change::Rerun.applies_to(task.status) => {
                copies.add(task).await?;
                continue;
            }
            Ok(task) => format!("{id} is {}: {}", task.status.as_str(), Change::Rerun.reason(task.status)),
            Err(error) if error.code() == Some(ErrorCode::TaskNotFound) => {
                format!("{id} does not exist ({})", ErrorCode::TaskNotFound)
            }
            Err(error) => return copies.finish(Err(error.into())).await,
        };
        is_complete = false;
        copies.bar.suspend(|| output::warning(&refusal));
    }
    copies.finish(if is_complete { Ok(()) } else { Err(Failure::Unfinished.into()) }).await
}

async fn rerun_selection(context: &ClientContext, args: &RerunArgs) -> Result<(), CommandError> {
    let (change, selection) = (Change::Rerun, args.target.selection.selection());
    let counts = StatusCounts::of(&context.client, &context.queue, selection.clone()).await?;
    let applicable = counts.of_those(|status| change.applies_to(status));
    if counts.total() == 0 {
        note_no_match(context);
        return Copies::new(context, 0).finish(Ok(())).await;
    }
    if applicable == 0 {
        return Copies::new(context, 0).finish(Err(change.nothing_changed(&counts).into())).await;
    }
    change.confirm(context, &counts, args.confirm)?;
    let mut copies = Copies::new(context, applicable);
    // One walk, newest first: the copies, which are newer, are not walked through, also if they end soon.
    let query = TaskQuery::of(selection).descending_by(OrderField::CreatedAt).limit(PAGE_LIMIT);
    let mut walk = context.client.walk_tasks(&context.queue, query);
    loop {
        match walk.next().await {
            Ok(Some(_)) if copies.error.is_some() => break,
            Ok(Some(task)) if change.applies_to(task.status) => copies.add(task).await?,
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => return copies.finish(Err(error.into())).await,
        }
    }
    let reasons = change.reasons(&counts);
    if !reasons.is_empty() {
        copies.bar.suspend(|| output::note(&format!("left out: {reasons}")));
    }
    copies.finish(Ok(())).await
}

fn definition_of(task: &Task) -> Definition {
    Definition {
        name: task.name.clone(),
        args: task.args.clone(),
        metadata: task.metadata.clone(),
        priority: task.priority,
        max_attempts: task.max_attempts,
        routes: task.routes.clone(),
    }
}

/// Copies that are being created.
struct Copies<'s> {
    context: &'s ClientContext,
    calls: ConcurrentCalls<(TaskId, TaskId, Option<Error>)>,
    bar: Progress,
    /// The originals, in the order in which they came.
    order: Vec<TaskId>,
    created: HashMap<TaskId, TaskId>,
    /// Why copies were not created, or not for sure.
    error: Option<Error>,
}

impl<'s> Copies<'s> {
    fn new(context: &'s ClientContext, count: u64) -> Self {
        let (calls, bar) = (ConcurrentCalls::new(), Progress::of_tasks("submitting", count));
        Self { context, calls, bar, order: Vec::new(), created: HashMap::new(), error: None }
    }

    /// The new id is chosen before the call, which the client may repeat: a lost answer does not make a second copy.
    async fn add(&mut self, task: Task) -> Result<(), CommandError> {
        let (client, queue, new_id) = (self.context.client.clone(), self.context.queue.clone(), random_id()?);
        self.order.push(task.id);
        let call = async move {
            let created = client.create_task(&queue, new_id, &definition_of(&task)).await;
            (task.id, new_id, created.err())
        };
        if let Some(result) = self.calls.start(call).await? {
            self.record(result);
        }
        Ok(())
    }

    fn record(&mut self, (old_id, new_id, error): (TaskId, TaskId, Option<Error>)) {
        match error {
            Some(error) => {
                let words = format!("{old_id} may not have been submitted again; taskqueue task get {new_id} tells");
                self.bar.suspend(|| output::warning(&words));
                self.error = Some(error);
            }
            None => drop(self.created.insert(old_id, new_id)),
        }
        self.bar.set_position(self.created.len() as u64);
    }

    /// Waits for the last results and prints every copy, also if the command failed: they exist.
    async fn finish(mut self, outcome: Result<(), CommandError>) -> Result<(), CommandError> {
        while let Some(result) = self.calls.next().await? {
            self.record(result);
        }
        drop(self.bar);
        let mut listing = self.context.printer.listing::<RerunRecord>();
        for old_id in &self.order {
            if let Some(new_id) = self.created.get(old_id) {
                listing.push(&RerunRecord { old_id: *old_id, new_id: *new_id })?;
            }
        }
        listing.finish()?;
        match self.error {
            Some(error) => Err(error.into()),
            None => outcome,
        }
    }
}
