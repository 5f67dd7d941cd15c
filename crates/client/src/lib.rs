//! A typed asynchronous client of the v2 API: methods of [`Client`] for the endpoints, the types of `core` on both sides.
//! It never prints, never follows a redirect, and never repeats a call that could then happen twice.
//!
//! * **Reads and creations** (`create_queue`, `create_task`) are repeated after transport errors and 503 answers, within the
//!   bounds of [`Retries`].
//! * **Batches** (`create_tasks`, `claim_tasks`, `report_runs`) send many items with one request, split where the limits of a
//!   request need that, and give each its own outcome in the order of the call. They follow the same rules as the single calls: creations are
//!   repeated, so a task that a lost first try has created is then [`CreateOutcome::Existing`]; claims and reports
//!   are not.
//! * **Extensions of the contract**, such as batches, need a server that has them: [`Client::require_extensions`] asks once for all.
//! * **Every other call** is sent once. When its answer is lost the error is [`Error::OutcomeUnknown`], which says how to find
//!   out what happened.
//! * **The token** goes to the configured server only, and over plain HTTP only to this machine, unless
//!   [`Config::allow_insecure_token`] says otherwise. No proxy is used, also if the environment names one.
//! * **An older server** is no error: see [`Client::take_warning`].
//!
//! ```
//! use taskqueue_client::{Client, Config, Error, ErrorCode, Status, TaskQuery, TaskSelection};
//! use taskqueue_client::{Definition, QueueName, TaskId};
//!
//! /// Makes sure of a task, then lists the names of everything that failed.
//! async fn example(client: &Client, queue: &QueueName) -> Result<(), Error> {
//!     let id = TaskId::parse("t_nightly00001").expect("the form of a task id");
//!     let definition = Definition { priority: 5, ..Definition::default() };
//!     match client.create_task(queue, id, &definition).await {
//!         Ok(task) => assert_eq!(task.value.priority, 5),
//!         Err(error) if error.code() == Some(ErrorCode::TaskIdConflict) => { /* another task has this id */ }
//!         Err(error) => return Err(error),
//!     }
//!     let mut failed = client.walk(queue, TaskQuery::of(TaskSelection::all().status(Status::Failed)));
//!     while let Some(task) = failed.next().await? {
//!         let _name = task.name;
//!     }
//!     Ok(())
//! }
//!
//! let config = Config::new("http://127.0.0.1:8000")?.token("a-secret")?;
//! assert!(!format!("{config:?}").contains("a-secret"));
//! let client = Client::new(config)?;
//! # let _ = example(&client, &QueueName::parse("q").unwrap());
//! # Ok::<(), taskqueue_client::ConfigError>(())
//! ```

mod call;
mod client;
mod config;
mod endpoints;
mod error;
mod query;
mod tls;

pub use call::Retries;
pub use client::{Client, OldServer, Version};
pub use config::Config;
pub use endpoints::{BatchClaimRequest, ClaimRequest, CreateOutcome, RunKey};
pub use error::{BatchAnswer, ConfigError, Created, Error, Waited};
pub use query::{GroupQuery, PageQuery, Selection, TaskQuery, TaskSelection, Walk, WorkerQuery, WorkerSelection};
pub use tls::{Pin, SHOWN_AUTHORITY, UNEXPECTED_KEY, UNTRUSTED_CERTIFICATE};

pub use taskqueue_api::ErrorCode;
pub use taskqueue_api::batch::{RunAction, RunItem};
pub use taskqueue_api::bulk_action::{Acted, BulkActionRequest};
pub use taskqueue_api::capabilities::{self, Capabilities, Health};
pub use taskqueue_api::error::Code;
pub use taskqueue_api::explain::{ExplainedReason, Explanation};
pub use taskqueue_api::lists::{Page, Updated};
pub use taskqueue_api::output::Output;
pub use taskqueue_api::queue::Queue;
pub use taskqueue_api::run::Claim;
pub use taskqueue_api::stats::{EventCounts, Percentiles, RecentActivity, RouteStats, Series, SeriesItem, Stats};
pub use taskqueue_api::task::{BulkUpdateRequest, Creation, LastRun, Task};
pub use taskqueue_core::activity::{Event, Unit};
pub use taskqueue_core::definition::{Definition, Routes};
pub use taskqueue_core::explain::Reason;
pub use taskqueue_core::grouping::{Group, TaskDimension, WorkerDimension};
pub use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
pub use taskqueue_core::json::JsonObject;
pub use taskqueue_core::lifecycle::RunReport;
pub use taskqueue_core::observation::{Observation, Report, Telemetry, WorkerStatus};
pub use taskqueue_core::scheduling::{Dependencies, OnDependencyFailure, RetryDelay, Scheduling, SchedulingFields};
pub use taskqueue_core::selection::{OrderField, TaskOrder};
pub use taskqueue_core::settings::{QueueSettings, Retention, RetentionPatch, RouteLimitsPatch, SettingsPatch};
pub use taskqueue_core::stats::SeriesSelection;
pub use taskqueue_core::status::RunEnd;
pub use taskqueue_core::task::{Failure, LastError, Status};
pub use taskqueue_core::time::Timestamp;
pub use taskqueue_core::trace::TraceParent;
pub use taskqueue_core::update::Update;
