//! The supervisor: a small process between the worker and the command of a run. All processes of a run are descendants of its
//! supervisor, and the run is over when the supervisor has no child left. A supervisor has one run at a time and is reused for others.
//! It starts the command with pipes or on a terminal, and stops or kills all that descends from it. Which run it gets is decided in
//! `process/`.

pub(crate) mod channel;

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use pty_process::blocking::{self, Pts, Pty};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, kill_process_group, set_child_subreaper};
use rustix::termios::{LocalModes, OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use rustix::thread::set_name;
use signal_hook::consts::signal::{SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use self::channel::{Channel, NotStarted, Reply, Request, RunEnd, StartRequest, WindowSize};
use crate::handler::RunControl;
use crate::process::proc::{self, ProcessEntry, is_ignored, kill_children};

/// The name of a supervisor in `ps`, and its whole command line. It does not contain the name of the program, so that killing the
/// worker by name does not kill the supervisors.
pub(crate) const NAME: &str = "tq-supervisor";

/// If this process was started as a supervisor, does its work and returns its exit code; otherwise returns `None` at once.
///
/// A program that runs commands calls this first in its `main`.
#[must_use]
pub fn run_if_supervisor() -> Option<ExitCode> {
    let is_supervisor = std::env::args_os().next().is_some_and(|name| name == NAME);
    is_supervisor.then(|| supervise().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}

/// Supervises one run after the other until the worker closes the socket, which is standard input.
pub(crate) fn supervise() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    // Otherwise `ps` would show `exe`, because it is started as /proc/self/exe.
    set_name(c"tq-supervisor")?;
    catch_signals()?;
    let worker = proc::take_stdin_socket()?;
    let (child_ended, sigchld) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGCHLD, sigchld)?;
    let served = serve(&mut Channel::new(worker, child_ended)?);
    // Without a worker the run must not continue.
    kill_children();
    served
}

/// The supervisor has to survive signals that are sent to every process of a service or of a user. The command inherits the default
/// action of a signal that is caught here; a signal that was ignored stays ignored.
fn catch_signals() -> io::Result<()> {
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM] {
        if !is_ignored(signal) {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
    }
    Ok(())
}

fn serve(channel: &mut Channel) -> io::Result<()> {
    while let Some(request) = channel.next()? {
        // Before another request came, the run has ended.
        if let Request::Start(start) = request {
            ProcessTree::supervise(channel, &start)?;
        }
    }
    Ok(())
}

struct SpawnedCommand {
    /// The pid of the command, which is also the id of its process group.
    leader: i32,
    terminal: Option<Terminal>,
}

struct Terminal {
    /// The worker's side.
    pty: Pty,
    /// The command's side. While it is open, the worker does not read an end of file, even if the command closes all its descriptors
    /// and opens /dev/tty later.
    _pts: Pts,
}

fn spawn(start: &StartRequest, files: Vec<OwnedFd>) -> Result<SpawnedCommand, NotStarted> {
    let Some((program, arguments)) = start.argv.split_first() else {
        return Err(of_command(io::ErrorKind::NotFound.into()));
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    for variable in &start.remove {
        command.env_remove(variable);
    }
    command.envs(start.environment.iter().map(|(name, value)| (name, value)));
    if let Some(window) = start.window { spawn_on_terminal(command, window) } else { spawn_piped(command, files) }
}

/// Uses no code between fork and exec: std then starts the child without copying the page tables of this process.
fn spawn_piped(mut command: Command, files: Vec<OwnedFd>) -> Result<SpawnedCommand, NotStarted> {
    let [stdout, stderr] =
        <[OwnedFd; 2]>::try_from(files).map_err(|_| io::Error::other("a command has two outputs"))?;
    let child = command.stdout(stdout).stderr(stderr).process_group(0).spawn().map_err(of_command)?;
    Ok(SpawnedCommand { leader: pid(&child)?, terminal: None })
}

/// Starts a command as the leader of a session with its own terminal. Its standard input is empty. A command that opens /dev/tty can
/// write to it; reading from it blocks for ever.
fn spawn_on_terminal(command: Command, window: WindowSize) -> Result<SpawnedCommand, NotStarted> {
    let (pty, pts) = blocking::open().map_err(io_error)?;
    let mut modes = tcgetattr(&pts).map_err(io::Error::from)?;
    // The terminal that the output is relayed to adds carriage returns, and the log needs none.
    modes.output_modes.remove(OutputModes::ONLCR);
    modes.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&pts, OptionalActions::Now, &modes).map_err(io::Error::from)?;
    let size = Winsize { ws_row: window.rows, ws_col: window.columns, ws_xpixel: 0, ws_ypixel: 0 };
    // The command can run with any size.
    let _ = tcsetwinsize(&pty, size);
    let mut command = blocking::Command::from(command).stdin(Stdio::null());
    let child = command.spawn_borrowed(&pts).map_err(|error| of_command(io_error(error)))?;
    Ok(SpawnedCommand { leader: pid(&child)?, terminal: Some(Terminal { pty, _pts: pts }) })
}

fn of_command(error: io::Error) -> NotStarted {
    NotStarted { error, is_of_command: true }
}

fn pid(child: &Child) -> io::Result<i32> {
    i32::try_from(child.id()).map_err(io::Error::other)
}

fn io_error(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
    }
}

/// The grace time of processes that outlive the command: enough to remove a temporary file. The command has ended, so the run should
/// end soon.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);

/// The time that processes have to end after SIGKILL. Only those that hang inside the kernel (state D) take longer.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Pauses between two SIGKILLs. They double, because most processes end within milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The number of times that /proc is read to find the processes outside the group: one that forks meanwhile is found by the next reading. One that
/// forks for ever is killed after the grace time.
const SCANS: usize = 8;

#[derive(Clone, Copy)]
enum EndingStage {
    Running,
    /// SIGTERM was sent; SIGKILL follows at this time.
    Stopping(Instant),
    /// SIGKILL was sent, and is sent again after each pause until this time.
    Killing(Instant, Duration),
}

struct ProcessTree {
    /// The pid of the command, which is also the id of its process group.
    leader: i32,
    grace: Duration,
    stage: EndingStage,
    requested: RunControl,
    /// The exit status of the leader, as wait(2) gave it.
    status: Option<i32>,
    /// The leader ended after it was asked to.
    was_stopped: bool,
    /// The processes that got the SIGTERM of the stop.
    told: HashSet<i32>,
}

impl ProcessTree {
    /// Starts a command, waits for the end of all its processes, and sends the replies to the worker.
    ///
    /// # Errors
    ///
    /// When the worker has closed the socket.
    fn supervise(channel: &mut Channel, start: &StartRequest) -> io::Result<()> {
        let files = channel.received.take_files();
        let spawned = match spawn(start, files) {
            Ok(spawned) => spawned,
            Err(NotStarted { error, is_of_command }) => {
                // For an error that std has found without a system call.
                let other = if error.kind() == io::ErrorKind::NotFound { Errno::NOENT } else { Errno::INVAL };
                let errno = error.raw_os_error().unwrap_or(other.raw_os_error());
                return channel.reply(&Reply::NotStarted { errno, is_of_command }, &[]);
            }
        };
        if let Some(Terminal { pty, .. }) = &spawned.terminal {
            channel.reply(&Reply::Terminal, &[pty.as_fd()])?;
        }
        let (leader, grace, told) = (spawned.leader, start.grace, HashSet::new());
        let (stage, requested) = (EndingStage::Running, RunControl::Continue);
        let mut tree = Self { leader, grace, stage, requested, status: None, was_stopped: false, told };
        let note = tree.wait_until_empty(channel)?;
        drop(spawned.terminal);
        channel.reply(&Reply::Ended(RunEnd { status: tree.status, was_stopped: tree.was_stopped, note }), &[])
    }

    /// Waits until no process is left; stops and kills them where needed. Returns a note about processes that cannot be killed.
    fn wait_until_empty(&mut self, channel: &mut Channel) -> io::Result<Option<String>> {
        while self.reap() {
            while let Some(request) = channel.received.next()? {
                self.handle(&request);
            }
            if self.status.is_some() && matches!(self.stage, EndingStage::Running) {
                self.stop(self.grace.min(LEFTOVER_GRACE));
            }
            let now = Instant::now();
            let limit = match self.stage {
                EndingStage::Running => None,
                EndingStage::Stopping(deadline) if now < deadline => {
                    // Those that have outlived their parents. A shell that starts a command blocks signals meanwhile: if the stop
                    // comes then, the shell ends after the start, and the command has missed the signal to its group.
                    self.tell(proc::children());
                    Some(deadline - now)
                }
                EndingStage::Stopping(_) => {
                    self.kill();
                    continue;
                }
                EndingStage::Killing(deadline, pause) if now < deadline => {
                    // Repeated, because the children of killed processes become our children.
                    proc::signal_children(Signal::KILL);
                    self.stage = EndingStage::Killing(deadline, LONGEST_PAUSE.min(pause * 2));
                    Some(pause)
                }
                EndingStage::Killing(..) => return Ok(Some(unkillable())),
            };
            channel.wait(limit)?;
        }
        Ok(None)
    }

    /// Reaps every child that has ended. Returns whether others are left.
    fn reap(&mut self) -> bool {
        proc::reap(|pid, status| {
            if pid == self.leader && self.status.is_none() {
                self.status = Some(status.as_raw());
                self.was_stopped = self.requested > RunControl::Continue;
            }
        })
    }

    fn handle(&mut self, request: &Request) {
        match (request, self.stage) {
            (Request::Stop, EndingStage::Running) => self.stop(self.grace),
            (Request::Kill, EndingStage::Running | EndingStage::Stopping(_)) => self.kill(),
            _ => {}
        }
        let order = if *request == Request::Kill { RunControl::Kill } else { RunControl::Stop };
        self.requested = self.requested.max(order);
    }

    fn stop(&mut self, grace: Duration) {
        let before = proc::descendants();
        // The group comes first: a process that leaves it before the signal is found outside, and one that leaves later has got it.
        self.signal_group(Signal::TERM, &before);
        self.signal_group(Signal::CONT, &before);
        for _ in 0..SCANS {
            let mut outside = proc::descendants();
            outside.retain(|entry| entry.group != self.leader);
            if !self.tell(outside.into_iter().map(|entry| entry.pid)) {
                break;
            }
        }
        self.told.extend(before.iter().map(|entry| entry.pid));
        self.stage = EndingStage::Stopping(Instant::now() + grace);
    }

    /// Sends SIGTERM to the processes that did not get it yet. Returns whether there are any.
    fn tell(&mut self, pids: impl IntoIterator<Item = i32>) -> bool {
        let missed: Vec<i32> = pids.into_iter().filter(|pid| self.told.insert(*pid)).collect();
        for pid in &missed {
            proc::signal(*pid, Signal::TERM);
            // A process that was stopped with SIGSTOP or by its terminal would not handle SIGTERM otherwise.
            proc::signal(*pid, Signal::CONT);
        }
        !missed.is_empty()
    }

    fn kill(&mut self) {
        // A signal to a group misses no fork, so this ends most processes that fork faster than /proc can be read.
        self.signal_group(Signal::KILL, &[]);
        self.stage = EndingStage::Killing(Instant::now() + KILL_TIMEOUT, FIRST_PAUSE);
    }

    /// Sends a signal to the group, if its id cannot have been reused: the leader was not reaped yet, or one of the processes is in the
    /// group.
    fn signal_group(&self, signal: Signal, processes: &[ProcessEntry]) {
        if self.status.is_none() || processes.iter().any(|entry| entry.group == self.leader) {
            let _ = Pid::from_raw(self.leader).map(|group| kill_process_group(group, signal));
        }
    }
}

fn unkillable() -> String {
    let list: Vec<String> =
        proc::descendants().iter().map(|entry| format!("{} (state {})", entry.pid, entry.state)).collect();
    format!("processes that do not end even when they are killed: {}", list.join(", "))
}
