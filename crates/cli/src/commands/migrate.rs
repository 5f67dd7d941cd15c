//! `taskqueue migrate`: copies a database to another, empty one. The copy itself is in `store::transfer`.

use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use taskqueue_core::words;
use taskqueue_store::transfer::{Progress, Step, Totals, transfer};

use crate::args::MigrateArgs;
use crate::failure::Failure;
use crate::open_store;
use crate::output;

pub(crate) async fn run(args: MigrateArgs) -> Result<(), Failure> {
    let began = Instant::now();
    // The source first: without it no target is created.
    let mut source = open_store::source(&args.from, args.from_schema.as_deref()).await?;
    let target = open_store::target(&args.to, args.to_schema.as_deref()).await?;
    let bar = bar();
    let copied = transfer(&mut *source, target, &mut |progress| show(&bar, progress)).await;
    bar.finish_and_clear();
    let copied = copied.map_err(|error| Failure::Refused(error.to_string()))?;
    output::text(&summary(&copied, began.elapsed().as_secs_f64()));
    Ok(())
}

/// On standard error, hidden if that is not a terminal.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:9} {wide_bar} {human_pos}/{human_len} tasks, {eta} left");
    // The template is a constant; if it is wrong, the default style is good enough.
    ProgressBar::no_length().with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn show(bar: &ProgressBar, progress: Progress) {
    let step = match progress.step {
        Step::Copying => "copying",
        Step::Verifying => "verifying",
    };
    if bar.message() != step {
        bar.set_message(step);
        bar.reset_eta();
    }
    bar.set_length(progress.tasks);
    bar.set_position(progress.done);
}

fn summary(copied: &Totals, seconds: f64) -> String {
    let (queues, tasks) = (words::count(copied.queues, "queue"), words::count(copied.tasks(), "task"));
    let observations = words::count(copied.observations, "observation");
    format!("copied {queues}, {tasks} ({} running), {observations} in {seconds:.1} s", copied.running)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_what_was_copied() {
        let copied = Totals { queues: 1, observations: 4, running: 17, ..Totals::default() };
        assert_eq!(summary(&copied, 2.06), "copied 1 queue, 0 tasks (17 running), 4 observations in 2.1 s");
    }
}
