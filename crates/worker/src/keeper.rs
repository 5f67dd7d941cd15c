//! The keeper: a tiny process above the worker. When the worker is gone, whatever way it went, the keeper kills what it has
//! left behind; when the keeper is gone, the worker hears of it and does the same. So no kill -9 of one of them leaves
//! anything running. What the worker does when it is asked to stop is not decided here.

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

use crate::process::proc::kill_children;
use crate::process::supervisor_pool;
pub use stop_requests::StopRequests;

/// The variable that tells the worker that it has a keeper. It reaches no child of the worker.
pub const KEPT_VARIABLE: &str = "TASKQUEUE_KEPT";

/// Longer than anything takes to die that can die. What hangs inside the kernel is left to the kernel.
pub(crate) const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// Who this process is.
#[derive(Debug)]
pub enum Kept {
    /// It was the keeper, and all is over. The process is to end with this code.
    Keeper(u8),
    /// It is the worker.
    Worker(StopRequests),
}

/// Starts this program a second time as the worker and waits for its end; in that second process it returns at once.
///
/// This is to be called before anything else, in particular before any thread is started. Standard input is not passed on:
/// the worker and its children have none.
///
/// # Errors
///
/// When the worker cannot be started or cannot listen.
pub fn keep() -> io::Result<Kept> {
    set_child_subreaper(Some(getpid()))?;
    if std::env::var_os(KEPT_VARIABLE).is_some() { worker().map(Kept::Worker) } else { keeper().map(Kept::Keeper) }
}

/// Kills everything below this process and lets nothing new be started: what a worker does when its keeper is gone, right
/// before it ends itself. Blocks. Says whether nothing is left.
pub fn kill_everything() -> bool {
    supervisor_pool::close();
    kill_children(KILL_PATIENCE)
}

/// Whether a signal was ignored when we were started: `nohup` means that.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored & (1 << (signal - 1)) != 0
}

/// The signals that ask for an end. Those that were ignored when we were started stay so.
fn stop_signals() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| *signal == SIGTERM || !is_ignored(*signal))
}

/// From now on each request to stop is a byte in this stream. Writing it is all that a signal does.
fn forward_requests(stream: &UnixStream) -> io::Result<()> {
    for signal in stop_signals() {
        signal_hook::low_level::pipe::register(signal, stream.try_clone()?)?;
    }
    Ok(())
}

fn keeper() -> io::Result<u8> {
    // Another name than the worker's, so that killing by name does not kill both.
    set_name(c"tq-keeper")?;
    let (requests, workers_end) = UnixStream::pair()?;
    forward_requests(&requests)?;
    // A signal to the whole group ends the worker. We have to stay, and to clean up after it.
    for signal in [SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let mut worker = start_worker(workers_end)?;
    let status = worker.wait()?;
    kill_children(KILL_PATIENCE);
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

fn start_worker(workers_end: UnixStream) -> io::Result<std::process::Child> {
    let mut arguments = std::env::args_os();
    // This very program, even if another version has been installed over it meanwhile.
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments).env(KEPT_VARIABLE, "1").stdin(Stdio::from(std::os::fd::OwnedFd::from(workers_end)));
    command.spawn()
}

fn worker() -> io::Result<StopRequests> {
    // We were started as /proc/self/exe and would be listed as `exe`.
    set_name(c"taskqueue")?;
    // What the keeper has to say comes by standard input, the one descriptor that can be passed without unsafe code. It is
    // moved to one that no child inherits.
    let keepers = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let (own, signals) = UnixStream::pair()?;
    forward_requests(&signals)?;
    StopRequests::new(keepers, own)
}
