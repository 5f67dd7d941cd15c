//! One command per run: started, listened to, ended with everything that it has started. Between it and this process there is a
//! supervisor (`supervisor/`). What a run is for, and what its end is reported as, is not known here.

mod ending;
mod line_splitter;
mod log;
mod output;
pub(crate) mod proc;
mod running_command;
mod start;
pub(crate) mod supervisor_pool;
mod tail;
mod terminal;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Signal, getpid, set_child_subreaper};
use taskqueue_core::ids::RunId;
use tokio::sync::watch;

use self::start::Started;
use crate::stop::Order;

pub use output::{Chunk, Output, Stream};
pub use start::StartError;
pub use terminal::WindowSize;

/// The variable that tells a command its run.
pub const RUN_ID_VARIABLE: &str = "TASKQUEUE_RUN_ID";

/// What is to be run.
#[derive(Debug)]
pub struct Launch {
    /// The command and its arguments.
    pub argv: Vec<OsString>,
    /// Variables that are added to our environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables that are taken from it first.
    pub remove: Vec<OsString>,
    /// The run, which the command is told.
    pub run_id: RunId,
    /// Where the output goes.
    pub output: Output,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal.
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

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How the command itself ended.
    pub status: Exit,
    /// Whether it was ordered to.
    pub stopped: bool,
    /// The end of what it said to standard error, or to its terminal.
    pub tail: String,
    /// What its log lacks, and why.
    pub log_note: Option<String>,
    /// Which processes could not be killed, or what else is not as it should be.
    pub process_note: Option<String>,
}

/// The children of this process. There is one set of them per process, whoever asks.
///
/// While this is used, no other child may be started by this process: it would be taken for something that a run has left
/// behind. And the `main` of the program has to begin with
/// [`supervise_if_started_for_it`](crate::supervise_if_started_for_it), for it is started again as the supervisors of runs.
#[derive(Clone, Copy, Debug)]
pub struct Processes {
    _private: (),
}

impl Processes {
    /// From now on this process inherits whatever its descendants leave behind.
    ///
    /// # Errors
    ///
    /// Where the kernel has no such thing.
    pub fn new() -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Self { _private: () })
    }

    /// Runs a command and returns when nothing of it is alive. If this is dropped before, the command is killed.
    ///
    /// # Errors
    ///
    /// When the command could not be started.
    pub async fn run(
        &self,
        launch: Launch,
        orders: watch::Receiver<Order>,
        grace: Duration,
    ) -> Result<Ended, StartError> {
        let program = launch.argv.first().cloned().unwrap_or_default();
        let not_started = |error| StartError::new(&program, error);
        let Started { running, sources, window } = start::start(&launch, grace).await.map_err(not_started)?;
        let mut pump = output::Pump::new(launch.output, sources, window);
        let end = {
            let mut pumping = pin!(pump.run());
            let mut ending = pin!(ending::end(running, orders));
            let mut is_drained = false;
            let end = loop {
                tokio::select! {
                    end = &mut ending => break end,
                    () = &mut pumping, if !is_drained => is_drained = true,
                }
            };
            if !is_drained {
                output::drain(pumping).await;
            }
            end.map_err(not_started)?
        };
        let (tail, log_note) = pump.finish().await;
        // A command that could not even be killed, or whose end is unknown, counts as killed.
        let status = end.status.map_or(Exit::Signal(Signal::KILL.as_raw()), Exit::from);
        Ok(Ended { status, stopped: end.was_stopped, tail, log_note, process_note: end.note })
    }
}
