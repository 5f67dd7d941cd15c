//! Runs one command per run: starts it, forwards its output, and ends it together with all processes that it has started. Each command
//! has a supervisor process as its parent (`supervisor/`). Tasks and reports are not known here.

mod log;
mod output;
pub(crate) mod proc;
pub(crate) mod running_command;
pub(crate) mod start;
#[cfg(test)]
mod tests;

use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::ExitStatus;

use rustix::process::Signal;
use tokio::sync::watch;
use tokio::time::timeout;

pub use self::output::{Chunk, Output};
use self::start::StartedCommand;
pub use self::start::{CommandSpec, RUN_ID_VARIABLE, StartError, find_program};
pub use crate::sent_output::Stream;
use crate::stop::RunControl;
pub use crate::supervisor::messages::WindowSize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match status.signal() {
            Some(signal) => Self::Signal(signal),
            None => Self::Code(status.code().unwrap_or_default()),
        }
    }
}

/// The end of the command of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    pub status: Exit,
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
    let program = spec.argv.first().cloned().unwrap_or_default();
    let not_started = |error| StartError::of(&program, error);
    let StartedCommand { running, sources, resizer } = start::start(&spec).await.map_err(not_started)?;
    let _begun = spec.processes.begin(running.supervisor.pid);
    let mut forwarder = output::OutputForwarder::new(spec.output, sources, resizer);
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
            let _ = timeout(output::DRAIN_TIMEOUT, forwarding).await;
        }
        end.map_err(not_started)?
    };
    let (tail, log_note) = forwarder.finish().await;
    // A command that could not be killed, or whose end is unknown, counts as killed.
    let status = end.status.map_or(Exit::Signal(Signal::KILL.as_raw()), |raw| ExitStatus::from_raw(raw).into());
    Ok(CommandEnd { status, was_stopped: end.was_stopped, tail, log_note, process_note: end.note })
}
