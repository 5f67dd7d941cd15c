//! The command of a run below its supervisor, as the worker sees it: requests are sent to the supervisor, and replies come back.
//! Supervisors are started for a run, then reused for the next one. A child of this process that is not a supervisor is a stray:
//! a killed supervisor has left it, and it is killed. What a supervisor does is in `supervisor.rs`.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::proc;
use crate::stop::RunControl;
use crate::supervisor::NAME;
use crate::supervisor::channel::{ReceiveBuffer, send};
use crate::supervisor::messages::{NotStarted, Reply, Request, RunEnd, frame};

/// A command that runs. When this is dropped, the run is killed.
#[derive(Debug)]
pub(crate) struct RunningCommand {
    pub(crate) supervisor: Supervisor,
    socket: tokio::net::UnixStream,
    pub(crate) received: ReceiveBuffer,
}

impl RunningCommand {
    /// Sends the start request to an idle supervisor, or to a new one.
    pub(crate) async fn start(request: &Request, files: &[BorrowedFd<'_>]) -> io::Result<Self> {
        let frame = frame(request);
        while let Some(supervisor) = Supervisor::idle() {
            // An idle supervisor that was killed has not read the whole frame, and so has started nothing.
            if let Ok(running) = Self::send(supervisor, &frame, files).await {
                return Ok(running);
            }
        }
        let supervisor = spawn_blocking(Supervisor::start).await.map_err(io::Error::other)??;
        Self::send(supervisor, &frame, files).await
    }

    async fn send(mut supervisor: Supervisor, frame: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<Self> {
        let mut socket = supervisor.take_socket()?;
        let sent = socket.async_io(Interest::WRITABLE, || send(socket.as_fd(), frame, files)).await?;
        socket.write_all(&frame[sent..]).await?;
        Ok(Self { supervisor, socket, received: ReceiveBuffer::default() })
    }

    /// Waits until no process of the run is alive. Passes on what the worker wants of it.
    ///
    /// # Errors
    ///
    /// When the command could not be started.
    pub(crate) async fn wait(mut self, mut control: watch::Receiver<RunControl>) -> Result<RunEnd, NotStarted> {
        let mut sent = RunControl::Continue;
        loop {
            tokio::select! {
                biased;
                reply = self.reply() => match reply {
                    Ok(Reply::Ended(mut end)) => {
                        if end.note.is_none() {
                            self.release();
                        }
                        end.was_stopped |= end.status.is_none();
                        return Ok(end);
                    }
                    Ok(Reply::NotStarted { errno, is_of_command }) => {
                        return Err(self.not_started(errno, is_of_command));
                    }
                    Ok(Reply::Terminal) => {}
                    Err(_) => break,
                },
                // A stronger request than the one that was sent. If the sender was dropped, none comes.
                Ok(wanted) = async { control.wait_for(|wanted| *wanted > sent).await.map(|wanted| *wanted) } => {
                    sent = wanted;
                    let request = if wanted == RunControl::Kill { Request::Kill } else { Request::Stop };
                    // If the supervisor was killed, the next reply is an error.
                    drop(self.socket.write_all(&frame(&request)).await);
                }
            }
        }
        self.kill_strays().await;
        let note = "the supervisor of the run was killed, and with it the run".to_owned();
        Ok(RunEnd { status: None, was_stopped: sent > RunControl::Continue, note: Some(note) })
    }

    /// The next reply. Nothing is lost when this future is dropped.
    ///
    /// # Errors
    ///
    /// When the supervisor has ended.
    pub(crate) async fn reply(&mut self) -> io::Result<Reply> {
        let Self { socket, received, .. } = self;
        loop {
            if let Some(reply) = received.next()? {
                return Ok(reply);
            }
            if !socket.async_io(Interest::READABLE, || received.fill(socket.as_fd())).await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The command could not be started; the supervisor can start another.
    pub(crate) fn not_started(self, errno: i32, is_of_command: bool) -> NotStarted {
        self.release();
        NotStarted { error: io::Error::from_raw_os_error(errno), is_of_command }
    }

    /// Kills the processes that a killed supervisor has left to this process.
    pub(crate) async fn kill_strays(self) {
        drop(self);
        kill_all_strays().await;
    }

    /// No process of the run is left: returns the supervisor to the pool.
    fn release(self) {
        self.supervisor.release(self.socket);
    }
}

/// Set in the environment of a worker that has a keeper. The children of the worker do not inherit it.
pub const HAS_KEEPER_VARIABLE: &str = "TASKQUEUE_KEPT";

/// The time that strays have to end after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// Global, because children belong to the process. Locked while a supervisor is started, because it is a child before its pid is
/// known.
static REGISTRY: Mutex<SupervisorRegistry> = Mutex::new(SupervisorRegistry { pids: BTreeSet::new(), is_closed: false });

/// The supervisors without a run. Never locked for long.
pub(crate) static IDLE: Mutex<Vec<Supervisor>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct SupervisorRegistry {
    pids: BTreeSet<i32>,
    /// No supervisor may be started any more.
    is_closed: bool,
}

/// A supervisor process. When this is dropped, it kills its run and exits.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) pid: i32,
    /// `None` while it has a run.
    socket: Option<UnixStream>,
}

impl Supervisor {
    pub(crate) fn idle() -> Option<Self> {
        IDLE.lock().pop()
    }

    /// Blocks for some milliseconds.
    pub(crate) fn start() -> io::Result<Self> {
        let (socket, supervisor_socket) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let mut registry = REGISTRY.lock();
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

    pub(crate) fn take_socket(&mut self) -> io::Result<tokio::net::UnixStream> {
        let socket = self.socket.take().ok_or_else(|| io::Error::other("this supervisor has a run"))?;
        tokio::net::UnixStream::from_std(socket)
    }

    /// Returns it to the pool after its run.
    pub(crate) fn release(mut self, socket: tokio::net::UnixStream) {
        if let Ok(socket) = socket.into_std() {
            self.socket = Some(socket);
            IDLE.lock().push(self);
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // From now on it is a stray, and so are its descendants.
        REGISTRY.lock().pids.remove(&self.pid);
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
    REGISTRY.lock().is_closed = true;
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
    let registry = REGISTRY.lock();
    let strays: Vec<i32> = proc::children().into_iter().filter(|pid| !registry.pids.contains(pid)).collect();
    for pid in &strays {
        proc::signal(*pid, Signal::KILL);
        let _ = Pid::from_raw(*pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
    }
    !strays.is_empty()
}
