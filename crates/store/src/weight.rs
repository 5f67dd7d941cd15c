//! What commands take of a transaction: the rows that they write and load, and not how long their requests are. Transactions are
//! filled by it (`write_queue.rs`), commands of several items are divided by it (`portions.rs`), and a bulk update that weighs
//! more than one transaction may take is refused. The reasons: docs/decisions/0039.

use taskqueue_core::{JsonObject, Refusal, Routes, Status, Task, Update};

use crate::command::{NewTask, RunAction};

/// Items of one transaction, unless light commands and one other of up to as many have more: about 20 milliseconds on
/// SQLite. A command that has more itself is large: it gets a transaction of its own.
pub const MAX_ITEMS: usize = 1_024;
/// Items that the dependencies and routes of a bulk update may add to its tasks: its transaction cannot be divided, and others wait
/// for it. About 160 milliseconds on SQLite.
const BULK_ITEMS: usize = 8 * MAX_ITEMS;

/// Items of a command that looks up or forgets what a task waits for, which nobody knows before: less than it may be, so that many
/// that wait for nothing share a transaction, and more than one.
pub(crate) const UNKNOWN: usize = 16;

/// Bytes whose storing takes about as long as an item.
const ITEM_BYTES: usize = 4_096;
/// Routes whose entries in the pending order take about as long as an item.
const ITEM_ROUTES: usize = 16;
/// Dependencies that take about as long as an item: each is looked up and noted.
const ITEM_DEPENDENCIES: usize = 4;

/// The items of a text that is stored, besides the one of its task.
pub(crate) fn of_bytes(bytes: usize) -> usize {
    bytes / ITEM_BYTES
}

fn of_routes(routes: &Routes) -> usize {
    routes.count() / ITEM_ROUTES
}

pub(crate) fn of_new_task(NewTask { definition, .. }: &NewTask) -> usize {
    let bytes = definition.args.as_str().len() + definition.metadata.as_str().len();
    let dependencies = definition.scheduling.dependencies.len();
    1 + of_bytes(bytes) + of_routes(&definition.routes) + dependencies / ITEM_DEPENDENCIES
}

/// Of one task. What it waited for before is not known yet.
pub(crate) fn of_update(update: &Update) -> usize {
    let documents = [&update.args, &update.metadata, &update.result, &update.args_patch, &update.metadata_patch];
    let bytes: usize = documents.into_iter().flatten().map(|document| document.as_str().len()).sum();
    let dependencies = update.dependencies.as_ref().map_or(0, |dependencies| dependencies.len());
    let waiting = if update.changes_waiting() { UNKNOWN + dependencies / ITEM_DEPENDENCIES } else { 1 };
    waiting + of_bytes(bytes) + update.routes.as_ref().map_or(0, of_routes)
}

pub(crate) fn of_run_action(action: &RunAction) -> usize {
    1 + of_bytes(action.bytes())
}

/// The weight of a report of progress.
pub(crate) fn of_progress(progress: &JsonObject) -> usize {
    1 + of_bytes(progress.as_str().len())
}

/// The work of a transaction so far that was not known before it began: of which tasks its commands change, only they know how
/// many others they wait for and how many routes they have.
#[derive(Debug, Default)]
pub(crate) struct Done {
    dependencies: usize,
    routes: usize,
}

impl Done {
    /// So many dependencies were looked up, noted or forgotten.
    pub(crate) fn dependencies(&mut self, count: usize) {
        self.dependencies += count;
    }

    /// A task with these routes came to the pending order or left it.
    pub(crate) fn routes(&mut self, routes: &Routes) {
        self.routes += of_routes(routes);
    }

    /// Returns whether what is left is for the next transaction.
    pub(crate) fn is_full(&self) -> bool {
        self.dependencies / ITEM_DEPENDENCIES + self.routes >= MAX_ITEMS
    }
}

/// The weight that a bulk update adds to the tasks that it changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BulkWeight {
    tasks: u64,
    dependencies: u64,
    routes: u64,
    items: usize,
}

impl BulkWeight {
    /// This task changes by the update.
    pub(crate) fn add(&mut self, update: &Update, task: &Task) {
        self.tasks += 1;
        if update.changes_waiting() {
            let before = &task.definition.scheduling.dependencies;
            let count = before.len() + update.dependencies.as_ref().map_or(0, |after| after.len());
            self.dependencies += count as u64;
            self.items += count / ITEM_DEPENDENCIES;
        }
        // A pending task leaves its places in the pending order and gets others.
        let before = Some(&task.definition.routes).filter(|_| update.priority.is_some() || update.routes.is_some());
        let before = before.filter(|_| task.lifecycle.status == Status::Pending);
        for routes in before.into_iter().chain(&update.routes) {
            self.routes += routes.count() as u64;
            self.items += of_routes(routes);
        }
    }

    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let Self { tasks, dependencies, routes, items } = *self;
        if items <= BULK_ITEMS {
            return Ok(());
        }
        // As many as fit, if all are like the ones that were found.
        let most_tasks = (tasks as usize * BULK_ITEMS / items) as u64;
        Err(Refusal::BulkUpdateTooLarge { tasks, dependencies, routes, most_tasks })
    }
}

#[cfg(test)]
#[path = "weight_tests.rs"]
mod tests;
