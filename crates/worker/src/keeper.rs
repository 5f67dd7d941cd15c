//! The keeper: a small parent process of the worker. When the worker ends in any way, the keeper kills the processes that it has
//! left, and knows which runs it has left. When the keeper ends, the worker notices and does the same. So a kill -9 of either leaves nothing running. What the
//! worker does when it is asked to stop is not decided here.

mod active_runs;
mod stop_requests;

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::process::{getpid, set_child_subreaper};
use rustix::thread::set_name;
use signal_hook::consts::signal::{SIGALRM, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use self::active_runs::WatchedRuns;
pub use self::active_runs::{ActiveRuns, LeftRun};
pub use self::stop_requests::StopRequests;
use crate::process::proc::kill_children;
use crate::process::supervisor_pool;

/// Set in the environment of a worker that has a keeper. The children of the worker do not inherit it.
pub const HAS_KEEPER_VARIABLE: &str = "TASKQUEUE_KEPT";

/// Long enough for every process that can be killed. One that hangs inside the kernel cannot.
pub(crate) const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// What this process is.
#[derive(Debug)]
pub enum Role {
    /// The keeper, after the worker has ended.
    Keeper(WorkerEnd),
    Worker(StopRequests),
}

/// How a worker ended.
#[derive(Debug)]
pub struct WorkerEnd {
    /// The process that it was.
    pub pid: u32,
    /// The code with which the keeper should exit.
    pub code: u8,
    /// The signal that killed it, if one did.
    pub signal: Option<i32>,
    /// The runs that it has not ended, however it ended itself.
    pub left: Vec<LeftRun>,
    /// Whether a process of theirs may be alive, because it could not be killed. Then none of them may begin elsewhere.
    pub has_survivors: bool,
}

/// Makes this process the keeper: starts the program a second time as the worker and waits for its end. In that second process it
/// returns at once.
///
/// Call this first, before any thread is started. The worker and its children have no standard input.
///
/// # Errors
///
/// When the worker cannot be started or cannot register its signals.
pub fn start() -> io::Result<Role> {
    set_child_subreaper(Some(getpid()))?;
    if std::env::var_os(HAS_KEEPER_VARIABLE).is_some() {
        prepare_worker().map(Role::Worker)
    } else {
        run_keeper().map(Role::Keeper)
    }
}

/// Kills all descendants of this process and prevents new ones. A worker does this right before it ends. Blocks. Returns whether
/// nothing is left.
pub fn kill_everything() -> bool {
    supervisor_pool::close();
    kill_children(KILL_TIMEOUT)
}

/// Whether a signal was ignored when this process was started, as `nohup` does.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored & (1 << (signal - 1)) != 0
}

/// The signals that ask the worker to stop, without those that were ignored when this process was started.
fn stop_signals() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| *signal == SIGTERM || !is_ignored(*signal))
}

/// From now on each stop signal writes a byte to this stream, and has no other effect.
fn forward_signals(stream: &UnixStream) -> io::Result<()> {
    for signal in stop_signals() {
        signal_hook::low_level::pipe::register(signal, stream.try_clone()?)?;
    }
    Ok(())
}

fn run_keeper() -> io::Result<WorkerEnd> {
    // Not the worker's name, so that killing by name does not kill both.
    set_name(c"tq-keeper")?;
    let (requests, worker_stream) = UnixStream::pair()?;
    forward_signals(&requests)?;
    // A signal to the whole group ends the worker. The keeper has to survive it and kill what is left.
    for signal in [SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let runs = WatchedRuns::watch(requests.try_clone()?);
    let mut worker = start_worker(worker_stream)?;
    let status = worker.wait()?;
    let has_survivors = !kill_children(KILL_TIMEOUT);
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX);
    Ok(WorkerEnd { pid: worker.id(), code, signal: status.signal(), left: runs.left(), has_survivors })
}

fn start_worker(worker_stream: UnixStream) -> io::Result<std::process::Child> {
    let mut arguments = std::env::args_os();
    // The running program, even if its file was replaced by another version.
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments).env(HAS_KEEPER_VARIABLE, "1").stdin(Stdio::from(std::os::fd::OwnedFd::from(worker_stream)));
    command.spawn()
}

fn prepare_worker() -> io::Result<StopRequests> {
    // Otherwise `ps` would show `exe`, because the worker is started as /proc/self/exe.
    set_name(c"taskqueue")?;
    // The keeper's stream is standard input, the one descriptor that can be passed without unsafe code. It is moved to a
    // descriptor that no child inherits.
    let from_keeper = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let (from_signals, signals) = UnixStream::pair()?;
    forward_signals(&signals)?;
    StopRequests::new(from_keeper, from_signals)
}
