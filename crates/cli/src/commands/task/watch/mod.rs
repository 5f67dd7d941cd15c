//! `task list --watch`: a live view of the list or, with `--output jsonl`, a line for each change.

mod changes;
mod print_changes;
mod view;

use std::time::Duration;

use taskqueue_client::{Client, Error, Page, QueueName, Task, TaskQuery};

use self::view::WatchView;
use crate::args::{Format, ListArgs};
use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::field_path::FieldPath;
use crate::live;

/// The largest page: a refresh is one request.
const LIMIT_MAX: u64 = 1000;

pub(super) async fn run(context: &ClientContext, args: &ListArgs) -> Result<(), CommandError> {
    let every = args.watch.watch.unwrap_or_default();
    // The same number in both formats: it is what is watched, not what is printed.
    let limit = args.limit.max_items(Format::Table);
    if limit.is_none_or(|count| count > LIMIT_MAX) {
        return Err(Failure::Usage(format!("--watch shows at most {LIMIT_MAX} tasks; use a smaller --limit")).into());
    }
    if !args.own_sort().is_empty() {
        let message = "--watch does not load all tasks, so it sorts by fields such as priority or finished_at only";
        return Err(Failure::Usage(message.to_owned()).into());
    }
    let query = args.query(limit);
    match context.printer.format() {
        Format::Jsonl if args.fields().is_some() => {
            let message = "--columns is for tables; the lines of --output jsonl have all fields";
            Err(Failure::Usage(message.to_owned()).into())
        }
        Format::Jsonl => print_changes::run(context, query, every).await,
        Format::Table => screen(context, query, args.fields(), every).await,
        Format::Json | Format::Csv | Format::Quiet => {
            let message = "--watch shows a table, or with --output jsonl a line for each task that is new or changed";
            Err(Failure::Usage(message.to_owned()).into())
        }
    }
}

async fn screen(
    context: &ClientContext,
    query: TaskQuery,
    fields: Option<&[FieldPath]>,
    every: Duration,
) -> Result<(), CommandError> {
    live::require_terminal("--watch", "--watch with --output jsonl")?;
    let view = WatchView::new(context.queue.clone(), fields.map(<[FieldPath]>::to_vec));
    live::run(view, every, |()| fetch(context.client.clone(), context.queue.clone(), query.clone())).await
}

async fn fetch(client: Client, queue: QueueName, query: TaskQuery) -> Result<Page<Task>, Error> {
    client.tasks(&queue, &query).await
}
