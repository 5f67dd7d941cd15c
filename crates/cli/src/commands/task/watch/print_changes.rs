//! `task list --watch --output jsonl`: prints each task when it is new or has changed. While the server is unreachable this
//! retries; a refusal ends it, because scripts have to notice.

use std::time::{Duration, Instant};

use taskqueue_client::{Error, Task, TaskQuery};
use tokio::time::sleep_until;

use super::changes::changed;
use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::live::{Controls, RefreshSchedule, is_refusal};
use crate::output::{self, Printer};

pub(super) async fn run(context: &ClientContext, query: TaskQuery, every: Duration) -> Result<(), CommandError> {
    let controls = Controls::new(every);
    let mut schedule = RefreshSchedule::new(Instant::now());
    let (mut before, mut is_warned) = (Vec::new(), false);
    loop {
        if let Some(due) = schedule.due(&controls) {
            sleep_until(due.into()).await;
        }
        schedule.begin(Instant::now());
        let outcome = context.client.tasks(&context.queue, &query).await;
        schedule.end(outcome.is_ok(), Instant::now());
        match outcome {
            Ok(page) => {
                print_changed(&context.printer, &before, &page.items)?;
                before = page.items;
            }
            Err(error) if is_refusal(&error) => return Err(error.into()),
            // Once per outage.
            Err(ref error) if !is_warned => warn(&context.url, error),
            Err(_) => {}
        }
        is_warned = schedule.is_failing();
    }
}

fn print_changed(printer: &Printer, before: &[Task], tasks: &[Task]) -> Result<(), Failure> {
    let changed = changed(before, tasks);
    let mut listing = printer.listing::<Task>();
    tasks.iter().filter(|task| changed.contains(&task.id)).try_for_each(|task| listing.push(task))?;
    listing.finish()
}

fn warn(url: &str, error: &Error) {
    output::warning(&format!("the server at {url} does not answer: {error}; waiting for it"));
}
