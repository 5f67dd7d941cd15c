//! The rules of the task queue. Everything here only computes: no async, no SQL, no clock, no randomness.
//!
//! Start with [`task`] (what a task is), then [`lifecycle`] (what may happen to it).

pub mod access;
pub mod activity;
pub mod batch_label;
pub mod bulk_action;
pub mod csv;
pub mod cursor;
pub mod definition;
pub mod delta;
pub mod dependency;
pub mod derived_ids;
pub mod dotted_keys;
pub mod durations;
pub mod explain;
pub mod fields;
pub mod filter;
pub mod fuzzy;
pub mod grouping;
pub mod ids;
pub mod json;
pub mod lease;
pub mod lifecycle;
pub mod limits;
pub mod name_template;
pub mod observation;
pub mod output;
pub mod pending_parts;
pub mod progress;
pub mod refusal;
pub mod run_item;
pub mod scheduling;
pub mod selection;
pub mod settings;
pub mod shell;
pub mod soundness;
pub mod sparse;
pub mod stats;
pub mod status;
pub mod sweep;
pub mod task;
pub mod task_view;
pub mod terminal;
pub mod time;
pub mod trace;
pub mod update;
pub mod varint;
pub mod words;

// The words that everything else is said in.
pub use access::Scope;
pub use bulk_action::BulkAction;
pub use definition::{Definition, Identity, Routes};
pub use delta::Delta;
pub use dependency::DependencyState;
pub use filter::{ObservationFilter, TaskFilter};
pub use ids::{QueueName, Route, RunId, TaskId, WorkerId};
pub use json::JsonObject;
pub use lifecycle::Change;
pub use observation::Observation;
pub use output::KeptOutput;
pub use refusal::Refusal;
pub use scheduling::{Dependencies, Scheduling};
pub use selection::{ObservationQuery, OrderField, TaskOrder, TaskQuery, TaskSelection};
pub use settings::{QueueSettings, Retention, RunningTasks, SettingsPatch};
pub use stats::{QueueFigures, RouteSelection};
pub use status::{RunEnd, Status, Statuses};
pub use task::{Lifecycle, Outcome, Task, TaskHead};
pub use task_view::TaskView;
pub use time::Timestamp;
pub use update::{Documents, Update};

#[cfg(test)]
#[path = "../tests/integration/samples.rs"]
mod samples;
