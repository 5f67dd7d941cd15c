//! Where the whole log of the latest run of a task is: on the machine of its worker, in the folder of the run. Only workers
//! that say who they are (`last_run`) can be asked that.

use std::fmt::{Display, Formatter};

use taskqueue_client::Task;
use taskqueue_core::json::{Found, lookup};

/// The file in the folder of a run.
const LOG_FILE: &str = "output.log";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunLog {
    host: Option<String>,
    /// The folder of the task, in which each of its runs has one.
    folder: String,
    /// Not known while the run is active.
    run_id: Option<String>,
}

impl RunLog {
    /// Nothing if the worker does not name its run directory.
    pub(crate) fn of(task: &Task) -> Option<Self> {
        let run = task.last_run.as_ref()?;
        let text = |name: &str| match lookup(run.worker.as_str(), &[name]) {
            Some(Found::Str(text)) => Some(text.to_text().into_owned()),
            _ => None,
        };
        let folder = format!("{}/{}", text("folder")?, task.id);
        Some(Self { host: text("host"), folder, run_id: run.run_id.map(|run_id| run_id.to_string()) })
    }
}

impl Display for RunLog {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        write!(out, "the full log is ")?;
        if let Some(host) = &self.host {
            write!(out, "on {host}: ")?;
        }
        match &self.run_id {
            Some(run_id) => write!(out, "{LOG_FILE} in the folder {}/{run_id}", self.folder),
            None => write!(out, "{LOG_FILE} below the folder {}", self.folder),
        }
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_client::{JsonObject, LastRun, RunId};

    use super::*;
    use crate::live::testing::task;

    fn shown(worker: &str, run_id: Option<&str>) -> Option<String> {
        let worker = JsonObject::from_canonical(worker);
        let last_run = LastRun { attempt: 1, worker, run_id: run_id.and_then(RunId::parse) };
        RunLog::of(&Task { last_run: Some(last_run), ..task(1) }).map(|log| log.to_string())
    }

    #[test]
    fn the_log_is_named_as_far_as_the_worker_says_where_it_is() {
        let worker = r#"{"folder":"/data/runs","host":"gpu-3"}"#;
        let ended = "the full log is on gpu-3: output.log in the folder /data/runs/t_000000000001/r_run000000001";
        assert_eq!(shown(worker, Some("r_run000000001")).as_deref(), Some(ended));
        let active = "the full log is on gpu-3: output.log below the folder /data/runs/t_000000000001";
        assert_eq!(shown(worker, None).as_deref(), Some(active));
        assert_eq!(shown(r#"{"folder":"/x"}"#, None).unwrap().matches(" on ").count(), 0);
        for silent in [r#"{"host":"gpu-3"}"#, r#"{"folder":7,"host":"gpu-3"}"#, "{}"] {
            assert_eq!(shown(silent, Some("r_run000000001")), None, "{silent}");
        }
        assert_eq!(RunLog::of(&task(1)), None);
    }
}
