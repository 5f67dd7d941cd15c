//! The worker: claims tasks of one queue and route, runs each of them, renews its lease, reports the result.
//!
//! [`Worker`] implements the protocol; a [`Handler`] does the work. [`command::CommandHandler`] starts one child process per
//! run; a function in your own program can be a handler too. The worker never prints: it sends events to an [`EventSink`].

mod claims;
pub mod command;
mod handler;
pub mod keeper;
pub mod process;
mod reachability;
mod report;
mod run_dir;
mod sent_output;
mod settings;
mod slot;
mod spool;
mod supervisor;
mod telemetry;
mod template;
mod worker;

pub use handler::{
    Event, EventSink, Handler, HandlerResult, IdleReason, Misfit, RunControl, RunOutcome, RunProgress, StopMode,
    TaskRun,
};
pub use run_dir::{RunDir, RunDirError};
pub use sent_output::{RunOutput, SendOutput};
pub use settings::{BackoffLimits, Intervals, OnFailures, Settings, SpoolSettings};
pub use spool::{LeftTasks, settle_left_runs};
pub use supervisor::run_if_supervisor;
pub use telemetry::RunProcesses;
pub use template::{FillError, Template, TemplateError};
pub use worker::{Counts, EndReason, Worker};
