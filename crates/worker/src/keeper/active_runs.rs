//! Which runs a worker has, as its keeper knows it: the worker writes a line when a run begins and one when it is over. What is left
//! when the worker was killed, the keeper gives back.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use taskqueue_client::{RunId, TaskId};

/// The end of the worker closes its stream at once; only a process that has inherited it could keep it open.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A run that a worker has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftRun {
    pub task_id: TaskId,
    pub run_id: RunId,
}

/// Tells the keeper which runs there are.
#[derive(Clone, Debug)]
pub struct ActiveRuns(Arc<UnixStream>);

impl ActiveRuns {
    /// The stream does not block.
    pub(super) fn new(to_keeper: UnixStream) -> Self {
        Self(Arc::new(to_keeper))
    }

    pub fn began(&self, task_id: TaskId, run_id: RunId) {
        self.write(&format!("+ {run_id} {task_id}\n"));
    }

    pub fn ended(&self, run_id: RunId) {
        self.write(&format!("- {run_id}\n"));
    }

    /// Never waits: a keeper that is stopped (Ctrl-Z) does not read. Of a run whose beginning it does not know the lease ends by
    /// itself; one whose end it does not know is refused by the server.
    fn write(&self, line: &str) {
        drop((&*self.0).write(line.as_bytes()));
    }
}

/// The runs of a worker, read by a thread of the keeper.
pub(super) struct WatchedRuns {
    active: Arc<Mutex<BTreeMap<RunId, TaskId>>>,
    closed: Receiver<()>,
}

impl WatchedRuns {
    pub(super) fn watch(from_worker: UnixStream) -> Self {
        let active = Arc::<Mutex<BTreeMap<RunId, TaskId>>>::default();
        let (runs, (close, closed)) = (Arc::clone(&active), channel());
        std::thread::spawn(move || {
            for line in BufReader::new(from_worker).lines() {
                let Ok(line) = line else { break };
                note(&mut runs.lock().unwrap_or_else(PoisonError::into_inner), &line);
            }
            drop(close);
        });
        Self { active, closed }
    }

    /// What is left after the end of the worker.
    pub(super) fn left(&self) -> Vec<LeftRun> {
        let _ = self.closed.recv_timeout(CLOSE_TIMEOUT);
        let active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        active.iter().map(|(run_id, task_id)| LeftRun { task_id: *task_id, run_id: *run_id }).collect()
    }
}

/// Follows one line. A worker that was killed may have left half of one.
fn note(active: &mut BTreeMap<RunId, TaskId>, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["+", run_id, task_id] => active.extend(RunId::parse(run_id).zip(TaskId::parse(task_id))),
        ["-", run_id] => drop(RunId::parse(run_id).and_then(|run_id| active.remove(&run_id))),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_and_did_not_end_is_left() {
        let (keeper, worker) = UnixStream::pair().unwrap();
        let (watched, runs) = (WatchedRuns::watch(keeper), ActiveRuns::new(worker));
        let task = |number: u8| TaskId::parse(&format!("t_00000000000{number}")).unwrap();
        let run = |number: u8| RunId::parse(&format!("r_00000000000{number}")).unwrap();
        (1..=3).for_each(|number| runs.began(task(number), run(number)));
        runs.ended(run(2));
        runs.write("+ r_0000");
        drop(runs);
        let left = [1, 3].map(|number| LeftRun { task_id: task(number), run_id: run(number) });
        assert_eq!(watched.left(), left);
    }
}
