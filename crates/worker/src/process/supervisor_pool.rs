//! The supervisors of this process: started when there is a run for them, kept for the next run. Whatever is a child of this
//! process and no supervisor was left by a supervisor that is gone, and is killed. What a supervisor does is in `supervisor/`.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use tokio::time::{Instant, sleep};

use super::proc;
use crate::keeper::KEPT_VARIABLE;
use crate::supervisor::NAME;

/// How long strays may take to end after SIGKILL.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// Children belong to the process, and so do these, whichever part of it has started them. Held while one is being started: it
/// is a child before its number is known.
static STARTED: LazyLock<Mutex<Started>> = LazyLock::new(Mutex::default);

/// Those without a run. Never held for long.
static IDLE: LazyLock<Mutex<Vec<Supervisor>>> = LazyLock::new(Mutex::default);

#[derive(Debug, Default)]
struct Started {
    pids: HashSet<i32>,
    /// Whether nothing is to be started any more.
    is_closed: bool,
}

fn started() -> MutexGuard<'static, Started> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn idle() -> MutexGuard<'static, Vec<Supervisor>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A supervisor. Without this, it kills what it has and ends.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pid: i32,
    /// Nothing while it has a run.
    socket: Option<UnixStream>,
}

impl Supervisor {
    /// One that is idle, if there is one.
    pub(crate) fn idle() -> Option<Self> {
        idle().pop()
    }

    /// A new one. Blocks for some milliseconds.
    pub(crate) fn start() -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let mut started = started();
        if started.is_closed {
            return Err(io::Error::other("this worker is ending"));
        }
        let mut command = program();
        // In a group of its own, so that what a terminal sends to the worker does not reach it.
        command.process_group(0).env_remove(KEPT_VARIABLE);
        let child = command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        started.pids.insert(pid);
        Ok(Self { pid, socket: Some(socket) })
    }

    /// The way to it, for a run.
    pub(crate) fn take_socket(&mut self) -> io::Result<tokio::net::UnixStream> {
        let socket = self.socket.take().ok_or_else(|| io::Error::other("this supervisor has a run"))?;
        tokio::net::UnixStream::from_std(socket)
    }

    /// Keeps it for the next run, now that it has none.
    pub(crate) fn keep(mut self, socket: tokio::net::UnixStream) {
        if let Ok(socket) = socket.into_std() {
            self.socket = Some(socket);
            idle().push(self);
        }
    }
}

#[cfg(test)]
impl Supervisor {
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    pub(crate) fn put_back(self) {
        idle().push(self);
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // From now on it counts as a stray, with all that is below it.
        started().pids.remove(&self.pid);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(sweep());
        }
    }
}

/// This very program, even if another version has been installed over it meanwhile.
#[cfg(not(test))]
fn program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(NAME);
    command
}

/// The same, where the program is that of the tests: it has a test that is a supervisor.
#[cfg(test)]
fn program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(NAME).args(["--exact", "process::tests::supervise", "--test-threads=1", "--nocapture"]);
    command
}

/// From now on nothing is started, and nothing is just being started either.
pub(crate) fn close() {
    started().is_closed = true;
}

/// Kills what belongs to no supervisor, until nothing of it is left, or nothing that can be killed.
pub(crate) async fn sweep() {
    let deadline = Instant::now() + KILL_PATIENCE;
    while kill_strays() && Instant::now() < deadline {
        sleep(PAUSE).await;
    }
}

/// Kills and reaps the children of this process that are no supervisors. Says whether there were any: what they leave comes to
/// this process and is killed next.
pub(crate) fn kill_strays() -> bool {
    let started = started();
    let strays: Vec<i32> = proc::children().into_iter().filter(|pid| !started.pids.contains(pid)).collect();
    for pid in &strays {
        proc::signal(*pid, Signal::KILL);
        let _ = Pid::from_raw(*pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
    }
    !strays.is_empty()
}
