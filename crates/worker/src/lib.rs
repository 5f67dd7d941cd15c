//! The worker: claims tasks of one queue and route, runs each of them, renews its lease, reports the result.
//!
//! [`Worker`] implements the protocol; a [`Handler`] does the work. [`command::CommandHandler`] starts one child process per
//! run; a function in your own program can be a handler too. The worker never prints: it sends events to an [`EventSink`].

pub mod command;
pub mod keeper;
pub mod process;

mod beats;
mod claims;
mod collector;
mod context;
mod earlier_reports;
mod error_class;
mod events;
mod failure_guard;
mod features;
mod handler;
mod identity;
mod idle_reason;
mod ids;
mod intervals;
mod lease;
mod left_runs;
mod observer;
mod outgoing;
mod pauses;
mod progress;
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
mod waits;
mod worker;

pub use context::{Counts, EndReason};
pub use events::{Event, EventSink, RunOutcome};
pub use failure_guard::OnFailures;
pub use handler::{Handler, HandlerResult, Misfit, TaskRun};
pub use idle_reason::IdleReason;
pub use ids::NoRandomness;
pub use intervals::{BackoffLimits, Intervals};
pub use left_runs::{LeftTasks, settle_left_runs};
pub use progress::RunProgress;
pub use run_dir::{RunDir, RunDirError};
pub use sent_output::{RunOutput, SendOutput};
pub use settings::{Settings, SpoolSettings};
pub use stop::{RunControl, StopMode};
pub use supervisor::run_if_supervisor;
pub use telemetry::RunProcesses;
pub use template::{FillError, Template, TemplateError};
pub use worker::Worker;
