//! The supervisor: a small process between the worker and the command of a run. Whatever a run starts, however it hides, is a
//! descendant of its supervisor, and the run is over when the supervisor has no child left. A supervisor has one run at a time
//! and many in its life. Which run it gets is decided in `process/`, not here.

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
use crate::keeper::{KILL_PATIENCE, is_ignored};
use crate::process::proc::kill_children;

/// What a supervisor is started as, and what `ps` shows. Its command line says nothing else, so that killing by the name of the
/// program does not kill the supervisors with it.
pub(crate) const NAME: &str = "tq-supervisor";

/// Supervises runs if this process was started for that, and gives how it is to end; nothing in any other process.
///
/// A program that runs commands ([`Processes`](crate::process::Processes)) calls this first in its `main`.
#[must_use]
pub fn supervise_if_started_for_it() -> Option<ExitCode> {
    let is_supervisor = std::env::args_os().next().is_some_and(|name| name == NAME);
    is_supervisor.then(|| match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// Supervises one run after the other until the worker is gone, whose end of a socket is standard input.
pub(crate) fn supervise() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    // It was started as /proc/self/exe and would be listed as `exe`.
    set_name(c"tq-supervisor")?;
    survive_signals()?;
    // Moved to a descriptor that no child inherits.
    let worker = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let (woken, wakes) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGCHLD, wakes)?;
    let served = serve(&mut Channel::new(worker, woken)?);
    // Without a worker nobody wants anything to go on.
    kill_children(KILL_PATIENCE);
    served
}

/// A signal that is sent to every process of a service or of a user is for the command, which gets it too. A signal that is
/// caught here is as it was for the command; one that was ignored stays ignored.
fn survive_signals() -> io::Result<()> {
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
            // It has crossed with the end of the run that it is about.
            Some(Request::Stop | Request::Kill) => {}
        }
    }
}
