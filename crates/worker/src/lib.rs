//! The worker: claims tasks of one queue and route, runs each of them, renews its lease, reports the result.
//!
//! [`Worker`] implements the protocol; a [`Handler`] does the work. [`command::CommandHandler`] starts one child process per
//! run; a function in your own program can be a handler too. The worker never prints: it sends events to an [`EventSink`].

pub mod command;
pub mod keeper;
pub mod process;

mod claims;
mod collector;
mod context;
mod events;
mod failure_guard;
mod handler;
mod identity;
mod idle_reason;
mod lease;
mod left_runs;
mod outgoing;
mod reachability;
mod report;
mod run_dir;
mod sent_output;
mod settings;
mod slot;
mod spool;
mod stop;
mod supervisor;
mod telemetry;
mod template;
mod worker;

pub use context::{Counts, EndReason};
pub use events::{Event, EventSink, IdleReason, RunOutcome};
pub use handler::{Handler, HandlerResult, Misfit, RunProgress, TaskRun};
pub use left_runs::{LeftTasks, settle_left_runs};
pub use run_dir::{RunDir, RunDirError};
pub use sent_output::{RunOutput, SendOutput};
pub use settings::{BackoffLimits, Intervals, OnFailures, Settings, SpoolSettings};
pub use stop::{RunControl, StopMode};
pub use supervisor::run_if_supervisor;
pub use telemetry::processes::RunProcesses;
pub use template::{FillError, Template, TemplateError};
pub use worker::Worker;
