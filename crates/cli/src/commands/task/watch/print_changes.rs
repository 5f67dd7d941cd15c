//! `task list --watch --output jsonl`: each task when it is first seen and whenever it has changed since. A server that
//! goes away is waited for; one that refuses ends it, because scripts have to know.

use std::time::{Duration, Instant};

use taskqueue_client::{Error, Task, TaskQuery};
use tokio::time::sleep_until;

use super::changes::changed;
use crate::failure::{Failure, Stop};
use crate::live::{Controls, Rounds, is_refusal};
use crate::output::{self, Printer};
use crate::session::Session;

pub(super) async fn run(session: &Session, query: TaskQuery, every: Duration) -> Result<(), Stop> {
    let controls = Controls::new(every);
    let mut rounds = Rounds::new(Instant::now());
    let (mut before, mut away) = (Vec::new(), false);
    loop {
        if let Some(due) = rounds.due(&controls) {
            sleep_until(due.into()).await;
        }
        rounds.begin(Instant::now());
        let outcome = session.client.tasks(&session.queue, &query).await;
        rounds.end(outcome.is_ok(), Instant::now());
        match outcome {
            Ok(page) => {
                print_changed(&session.printer, &before, &page.items)?;
                before = page.items;
            }
            Err(error) if is_refusal(&error) => return Err(error.into()),
            // Once for each time that it is away.
            Err(ref error) if !away => warn(&session.url, error),
            Err(_) => {}
        }
        away = rounds.is_failing();
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
