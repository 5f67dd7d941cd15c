//! Runs one command per run: starts it, forwards its output, and ends it together with all processes that it has started. Each command
//! has a supervisor process as its parent (`supervisor.rs`), to which requests are sent and whose replies come back here. Supervisors are
//! started for a run, then reused for the next one. A child of this process that is not a supervisor is a stray: a killed supervisor has left
//! it, and it is killed. Tasks and reports are not known here.

mod output;
pub(crate) mod proc;
pub(crate) mod start;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::pin::pin;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

pub use self::output::{Chunk, Output};
use self::output::{DRAIN_TIMEOUT, OutputForwarder};
pub(crate) use self::start::CommandSpec;
use self::start::StartedCommand;
pub use self::start::{RUN_ID_VARIABLE, StartError, find_program};
use crate::handler::RunControl;
pub use crate::sent_output::Stream;
use crate::supervisor::NAME;
pub use crate::supervisor::channel::WindowSize;
use crate::supervisor::channel::{NotStarted, ReceiveBuffer, Reply, Request, RunEnd, frame, send};

/// The end of the command of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    pub status: ExitStatus,
    /// It ended after it was asked to.
    pub was_stopped: bool,
    /// The last output on standard error, or on the terminal.
    pub tail: String,
    /// A note of what is missing in the log, and why.
    pub log_note: Option<String>,
    /// A note of the processes that could not be killed, or that the supervisor was killed.
    pub process_note: Option<String>,
}

/// Runs a command and returns when no process of the run is alive. If the future is dropped before, the run is killed. All runs of a
/// process share one pool of supervisors.
///
/// This process has to be a child subreaper, so that orphans among its descendants become its children (`keeper.rs`). It may start no
/// other child: that would be killed as a process that a run has left. The `main` of the program has to begin with
/// [`run_if_supervisor`](crate::run_if_supervisor), because the program is started again as supervisor.
///
/// # Errors
///
/// When the command could not be started.
pub(crate) async fn run(spec: CommandSpec, control: watch::Receiver<RunControl>) -> Result<CommandEnd, StartError> {
    let CommandSpec { start, output, processes } = spec;
    let program = start.argv.first().cloned().unwrap_or_default();
    let not_started = |error| StartError::of(&program, error);
    let started = start::start(start, output.terminal.clone()).await;
    let StartedCommand { running, sources, resizer } = started.map_err(not_started)?;
    let _begun = processes.begin(running.supervisor.pid);
    let mut forwarder = OutputForwarder::new(output, sources, resizer);
    let end = {
        let mut forwarding = pin!(forwarder.run());
        let mut waiting = pin!(running.wait(control));
        let mut is_drained = false;
        let end = loop {
            tokio::select! {
                end = &mut waiting => break end,
                () = &mut forwarding, if !is_drained => is_drained = true,
            }
        };
        if !is_drained {
            let _ = timeout(DRAIN_TIMEOUT, forwarding).await;
        }
        end.map_err(not_started)?
    };
    let (tail, log_note) = forwarder.finish().await;
    // A command that could not be killed, or whose end is unknown, counts as killed.
    let status = ExitStatus::from_raw(end.status.unwrap_or(Signal::KILL.as_raw()));
    Ok(CommandEnd { status, was_stopped: end.was_stopped, tail, log_note, process_note: end.note })
}

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
        let socket = supervisor.socket.take().ok_or_else(|| io::Error::other("this supervisor has a run"))?;
        let mut socket = tokio::net::UnixStream::from_std(socket)?;
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
        let Self { mut supervisor, socket, .. } = self;
        if let Ok(socket) = socket.into_std() {
            supervisor.socket = Some(socket);
            IDLE.lock().push(supervisor);
        }
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

#[cfg(test)]
mod tests;
