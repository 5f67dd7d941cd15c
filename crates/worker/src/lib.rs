//! The worker: claims tasks of one queue and route, runs each of them once, keeps its lease, reports how it ended.
//!
//! [`Worker`] does the protocol; a [`Handler`] does the work: [`command::Command`] starts one child process per run, and a
//! function of a program of your own is a handler too. The worker never prints; a [`Listener`] hears what it does.

pub mod command;
pub mod keeper;
pub mod process;

mod claims;
mod context;
mod error_class;
mod events;
mod guard;
mod handler;
mod ids;
mod intervals;
mod lease;
mod observer;
mod report;
mod run_dir;
mod settings;
mod slot;
mod spool;
mod stop;
mod supervisor;
mod template;
mod worker;

pub use context::{Counts, End};
pub use events::{Ending, Event, Listener};
pub use handler::{Handler, Outcome, Run};
pub use ids::NoRandomness;
pub use intervals::{Intervals, Pauses};
pub use run_dir::{RunDir, RunDirError};
pub use settings::{Settings, SpoolSettings};
pub use stop::{Order, Stop};
pub use supervisor::supervise_if_started_for_it;
pub use template::{FillError, Template, TemplateError};
pub use worker::Worker;
