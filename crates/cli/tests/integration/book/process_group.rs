//! A process that was started as the leader of a group, and ends with all of the group.

use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// After the first request a worker lets a command finish, after the second it stops it.
const PATIENCE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(5)];

#[derive(Debug)]
pub(crate) struct ProcessGroup {
    leader: Pid,
    ended: Receiver<ExitStatus>,
    status: Option<ExitStatus>,
}

impl ProcessGroup {
    pub(crate) fn new(mut leader: Child) -> Self {
        let (send, ended) = channel();
        let pid = Pid::from_child(&leader);
        std::thread::spawn(move || send.send(leader.wait().unwrap()));
        Self { leader: pid, ended, status: None }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // It may have ended.
        let _ = kill_process_group(self.leader, signal);
    }

    /// The status of the leader, if it ends in time.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = match self.ended.recv_timeout(limit) {
                Ok(status) => Some(status),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => unreachable!("the thread sends before it ends"),
            };
        }
        self.status
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        for limit in PATIENCE {
            self.signal(Signal::TERM);
            if self.wait(limit).is_some() {
                break;
            }
        }
        self.signal(Signal::KILL);
    }
}
