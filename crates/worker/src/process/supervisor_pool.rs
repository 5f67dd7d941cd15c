//! The supervisors of this process: started for a run, then reused for the next one. A child of this process that is not a supervisor
//! is a stray: a killed supervisor has left it, and it is killed. What a supervisor does is in `supervisor/`.

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
use crate::keeper::HAS_KEEPER_VARIABLE;
use crate::supervisor::NAME;

/// How long strays may take to end after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// Global, because children belong to the process. Locked while a supervisor is started, because it is a child before its pid is
/// known.
static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

/// The supervisors without a run. Never locked for long.
static IDLE: LazyLock<Mutex<Vec<Supervisor>>> = LazyLock::new(Mutex::default);

#[derive(Debug, Default)]
struct Registry {
    pids: HashSet<i32>,
    /// No supervisor may be started any more.
    is_closed: bool,
}

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

fn idle() -> MutexGuard<'static, Vec<Supervisor>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A supervisor process. When this is dropped, it kills its run and exits.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pid: i32,
    /// `None` while it has a run.
    socket: Option<UnixStream>,
}

impl Supervisor {
    pub(crate) fn idle() -> Option<Self> {
        idle().pop()
    }

    /// Blocks for some milliseconds.
    pub(crate) fn start() -> io::Result<Self> {
        let (socket, supervisor_socket) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let mut registry = registry();
        if registry.is_closed {
            return Err(io::Error::other("this worker is ending"));
        }
        let mut command = program();
        // In its own group, so that the terminal's signals to the worker do not reach it.
        command.process_group(0).env_remove(HAS_KEEPER_VARIABLE);
        let child = command.stdin(OwnedFd::from(supervisor_socket)).stdout(Stdio::null()).spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        registry.pids.insert(pid);
        Ok(Self { pid, socket: Some(socket) })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    pub(crate) fn take_socket(&mut self) -> io::Result<tokio::net::UnixStream> {
        let socket = self.socket.take().ok_or_else(|| io::Error::other("this supervisor has a run"))?;
        tokio::net::UnixStream::from_std(socket)
    }

    /// Returns it to the pool after its run.
    pub(crate) fn release(mut self, socket: tokio::net::UnixStream) {
        if let Ok(socket) = socket.into_std() {
            self.socket = Some(socket);
            idle().push(self);
        }
    }
}

#[cfg(test)]
impl Supervisor {
    pub(crate) fn put_back(self) {
        idle().push(self);
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // From now on it is a stray, and so are its descendants.
        registry().pids.remove(&self.pid);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(kill_all_strays());
        }
    }
}

/// The running program, even if its file was replaced by another version.
fn program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(NAME);
    // One of the unit tests is a supervisor.
    #[cfg(test)]
    command.args(["--exact", "process::tests::supervise", "--test-threads=1", "--nocapture"]);
    command
}

/// No supervisor is started after this returns.
pub(crate) fn close() {
    registry().is_closed = true;
}

/// Kills strays until none is left, or the rest cannot be killed.
pub(crate) async fn kill_all_strays() {
    let deadline = Instant::now() + KILL_TIMEOUT;
    while kill_strays() && Instant::now() < deadline {
        sleep(PAUSE).await;
    }
}

/// Kills and reaps the strays once. Returns whether there were any: their own children become strays and have to be killed next.
pub(crate) fn kill_strays() -> bool {
    let registry = registry();
    let strays: Vec<i32> = proc::children().into_iter().filter(|pid| !registry.pids.contains(pid)).collect();
    for pid in &strays {
        proc::signal(*pid, Signal::KILL);
        let _ = Pid::from_raw(*pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
    }
    !strays.is_empty()
}
