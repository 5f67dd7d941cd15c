//! Warns of running tasks whose workers were not heard of for a while: such a run may be dead, and its task runs again only when its
//! lease is over.

use std::collections::BTreeSet;
use std::time::Duration;

use taskqueue_client::{Error, Reason, Status, Task, TaskId, TaskQuery, TaskSelection, Timestamp};
use taskqueue_core::limits::LEASE_SECONDS;
use tokio::time::{Instant, timeout};

use super::watched::Watched;
use crate::client_context::ClientContext;
use crate::output::{self, worker_place};

/// The warnings are optional: the wait goes on without them.
const CHECK_TIME: Duration = Duration::from_secs(10);
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// So many running tasks are looked at.
const TASKS_SEEN: u16 = 20;
/// A worker that lives is heard of every 50 seconds.
const SILENCE_SECONDS: i64 = 60;

/// Which tasks were warned of.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    warned: BTreeSet<TaskId>,
    checked: Option<Instant>,
}

impl Unheard {
    /// The warnings that are due now, each task once; none if the server does not tell.
    pub(super) async fn check(&mut self, context: &ClientContext, watched: &Watched) -> Vec<String> {
        // Nothing can be silent for a minute that was not seen before.
        let checked = *self.checked.get_or_insert_with(Instant::now);
        if checked.elapsed() < CHECK_INTERVAL {
            return Vec::new();
        }
        let warnings = timeout(CHECK_TIME, self.silent_tasks(context, watched)).await;
        self.checked = Some(Instant::now());
        warnings.ok().and_then(Result::ok).unwrap_or_default()
    }

    async fn silent_tasks(&mut self, context: &ClientContext, watched: &Watched) -> Result<Vec<String>, Error> {
        let (now, mut warnings) = (output::now(), Vec::new());
        for task in running_tasks(context, watched).await? {
            if self.warned.contains(&task.id) {
                continue;
            }
            let explanation = context.client.explain_task(&context.queue, task.id).await?;
            let Some(Reason::NotPending { last_heard_at: Some(heard), .. }) =
                explanation.reasons.first().and_then(|reason| reason.reason.as_ref())
            else {
                continue;
            };
            let place = task.last_run.as_ref().and_then(|run| worker_place(&run.worker));
            if let Some(warning) = warning(task.id, place.as_deref(), *heard, now) {
                self.warned.insert(task.id);
                warnings.push(warning);
            }
        }
        Ok(warnings)
    }
}

/// Some of the running tasks that are waited for.
async fn running_tasks(context: &ClientContext, watched: &Watched) -> Result<Vec<Task>, Error> {
    let running = |selection: TaskSelection| TaskQuery::of(selection.status(Status::Running)).limit(TASKS_SEEN);
    match watched {
        Watched::Counted(selection) => {
            Ok(context.client.tasks(&context.queue, &running(selection.clone())).await?.items)
        }
        Watched::Followed(followed) => {
            let mut tasks = Vec::new();
            for id in followed.running().take(TASKS_SEEN.into()) {
                tasks.push(context.client.task(&context.queue, id).await?);
            }
            Ok(tasks)
        }
    }
}

/// That nothing was heard of the run of a task, if that has been so for long.
fn warning(id: TaskId, place: Option<&str>, heard: Timestamp, now: Timestamp) -> Option<String> {
    let silent = (now.as_micros() - heard.as_micros()) / 1_000_000;
    if silent <= SILENCE_SECONDS {
        return None;
    }
    let worker = place.map_or_else(|| "its worker".to_owned(), |place| format!("its worker, on {place},"));
    let rest = match LEASE_SECONDS - silent {
        left @ 1.. => format!("if it is gone, the task is taken from it in {left}s"),
        _ => "its lease is over".to_owned(),
    };
    Some(format!("{id} is running, but {worker} was not heard of for {silent}s; {rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_was_not_heard_of_for_a_minute_is_named() {
        let (id, now) = (TaskId::parse("t_000000000001").unwrap(), Timestamp::from_micros(1_000_000_000));
        let said = |place, seconds: i64| warning(id, place, now.plus_seconds(-seconds), now);
        assert_eq!(said(None, 60), None);
        assert_eq!(
            said(Some("gpu-3, slot 0, pid 9"), 75).as_deref(),
            Some(
                "t_000000000001 is running, but its worker, on gpu-3, slot 0, pid 9, was not heard of for 75s; if it is gone, the \
                 task is taken from it in 225s"
            )
        );
        assert!(said(None, 310).unwrap().ends_with("its worker was not heard of for 310s; its lease is over"));
    }
}
