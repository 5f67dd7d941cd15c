//! The supervisor: a small process between the worker and the command of a run. All processes of a run are descendants of its
//! supervisor, and the run is over when the supervisor has no child left. A supervisor has one run at a time and is reused for others.
//! Which run it gets is decided in `process/`.

pub(crate) mod channel;
pub(crate) mod messages;
mod process_tree;
mod spawn;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{getpid, set_child_subreaper};
use rustix::thread::set_name;
use signal_hook::consts::signal::{SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use self::channel::Channel;
use self::messages::Request;
use self::process_tree::ProcessTree;
use crate::keeper::{KILL_TIMEOUT, is_ignored};
use crate::process::proc::kill_children;

/// The name of a supervisor in `ps`, and its whole command line. It does not contain the name of the program, so that killing the
/// worker by name does not kill the supervisors.
pub(crate) const NAME: &str = "tq-supervisor";

/// If this process was started as a supervisor, does its work and returns its exit code; otherwise returns `None` at once.
///
/// A program that uses [`CommandRunner`](crate::process::CommandRunner) calls this first in its `main`.
#[must_use]
pub fn run_if_supervisor() -> Option<ExitCode> {
    let is_supervisor = std::env::args_os().next().is_some_and(|name| name == NAME);
    is_supervisor.then(|| match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// Supervises one run after the other until the worker closes the socket, which is standard input.
pub(crate) fn supervise() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    // Otherwise `ps` would show `exe`, because it is started as /proc/self/exe.
    set_name(c"tq-supervisor")?;
    catch_signals()?;
    // Moved to a descriptor that no child inherits.
    let worker = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let (child_ended, sigchld) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGCHLD, sigchld)?;
    let served = serve(&mut Channel::new(worker, child_ended)?);
    // Without a worker the run must not continue.
    kill_children(KILL_TIMEOUT);
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
    loop {
        match channel.next()? {
            None => return Ok(()),
            Some(Request::Start(start)) => ProcessTree::supervise(channel, &start)?,
            // The run has ended before the request arrived.
            Some(Request::Stop | Request::Kill) => {}
        }
    }
}
