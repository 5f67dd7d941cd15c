//! What the keeper does when the worker was killed: it gives the running tasks back, so that nobody has to wait for the end of their
//! leases, and says what happened.

use std::time::Duration;

use taskqueue_client::{Error, TaskId};
use taskqueue_worker::keeper::{LeftRun, WorkerEnd};
use taskqueue_worker::{LeftTasks, SpoolSettings, settle_left_runs};
use tokio::runtime::Builder;

use super::open_run_dir;
use crate::args::{LoopArgs, OutputArgs};
use crate::client_context::{ClientContext, Retrying};
use crate::failure::Failure;
use crate::output::{escape, warning};

/// The time for which the server is asked. A person may wait for the end of the keeper; what is not done then, the next worker does.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn settle(args: &LoopArgs, end: &WorkerEnd) {
    let how = match end.signal {
        Some(signal) => format!("was killed by signal {signal}"),
        None => format!("ended with exit code {}", end.code),
    };
    let what = if end.has_survivors {
        survivors(&end.left)
    } else {
        match settled(args, end) {
            Ok(left) => outcome(&left),
            Err(failure) => {
                let why = failure.message().unwrap_or_default().to_owned();
                format!("its running tasks could not be given back, and wait for the end of their leases: {why}")
            }
        }
    };
    warning(&format!("the worker, process {}, {how}; {what}", end.pid));
}

fn settled(args: &LoopArgs, end: &WorkerEnd) -> Result<LeftTasks, Failure> {
    let context = ClientContext::open(&args.connection, &args.queue, OutputArgs::TABLE, Retrying::Never)?;
    let run_dir = open_run_dir(args.run_dir.as_deref())?;
    let spool = SpoolSettings { run_dir, url: context.url.clone() };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Refused(error.to_string()))?;
    let settling = settle_left_runs(&context.client, &context.queue, Some(&spool), end.left.clone(), PATIENCE);
    Ok(runtime.block_on(settling))
}

/// A run of which something is alive must not begin elsewhere, so nothing is given back.
fn survivors(left: &[LeftRun]) -> String {
    const WHAT: &str = "a process that it had started could not be killed";
    let tasks: Vec<TaskId> = left.iter().map(|run| run.task_id).collect();
    match tasks.as_slice() {
        [] => WHAT.to_owned(),
        tasks => format!("{WHAT}, so its running tasks wait for the end of their leases: {}", named(tasks)),
    }
}

/// Returns what the server said, if it said anything.
fn answer(error: &Error) -> Option<String> {
    match error.origin() {
        Error::Transport { .. } => None,
        error => Some(format!(": {}", escape(&error.to_string()))),
    }
}

fn outcome(left: &LeftTasks) -> String {
    let LeftTasks { given_back, settled, undelivered, last_error } = left;
    let why = last_error.as_ref().and_then(answer).unwrap_or_else(|| ", because the server did not answer".to_owned());
    let parts = [
        (given_back, "given back, uncharged".to_owned()),
        (settled, "had ended already".to_owned()),
        (undelivered, format!("could not be given back{why}; the next worker with this run directory will")),
    ];
    let parts = parts.into_iter().filter(|(tasks, _)| !tasks.is_empty());
    let parts: Vec<String> = parts.map(|(tasks, what)| format!("{}: {what}", named(tasks))).collect();
    parts.join("; ")
}

/// The first of many.
fn named(tasks: &[TaskId]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<&str> = tasks.iter().take(SHOWN).map(TaskId::as_str).collect();
    match tasks.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_client::RunId;

    use super::*;

    #[test]
    fn that_a_process_could_not_be_killed_is_said_with_the_tasks_that_wait_for_it() {
        let task_id = TaskId::parse("t_000000000001").unwrap();
        let left = [LeftRun { task_id, run_id: RunId::parse("r_000000000001").unwrap() }];
        assert_eq!(survivors(&[]), "a process that it had started could not be killed");
        assert!(survivors(&left).ends_with("wait for the end of their leases: t_000000000001"), "{}", survivors(&left));
    }

    #[test]
    fn each_task_is_named_with_what_became_of_it() {
        let task = |number: u32| TaskId::parse(&format!("t_{number:012}")).unwrap();
        let left = LeftTasks { given_back: vec![task(1), task(2)], settled: vec![task(3)], ..LeftTasks::default() };
        let expected = "t_000000000001, t_000000000002: given back, uncharged; t_000000000003: had ended already";
        assert_eq!(outcome(&left), expected);
        let refused = Error::Transport { message: "connection refused".to_owned(), may_have_arrived: false };
        let broken = Error::Protocol { status: 502, message: "Bad Gateway".to_owned(), from_taskqueue: false };
        for (last_error, why) in [
            (None, ", because the server did not answer"),
            (Some(refused), ", because the server did not answer"),
            (Some(broken), ": the answer is not valid: Bad Gateway"),
        ] {
            let undelivered = LeftTasks { undelivered: vec![task(4)], last_error, ..LeftTasks::default() };
            let expected =
                format!("t_000000000004: could not be given back{why}; the next worker with this run directory will");
            assert_eq!(outcome(&undelivered), expected);
        }
        let many = LeftTasks { given_back: (0..10).map(task).collect(), ..LeftTasks::default() };
        assert!(outcome(&many).ends_with("t_000000000007 and 2 more: given back, uncharged"), "{}", outcome(&many));
    }
}
