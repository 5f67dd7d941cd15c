//! What nearly every test of a store names: commands of every kind and short ways to say them, the types that they are made of, and
//! what a test stands at.

pub use std::sync::Arc;
pub use std::time::Duration;

pub use taskqueue_core::activity::{Counts, Event, Unit};
pub use taskqueue_core::bulk_action::BulkAction;
pub use taskqueue_core::cursor::Position;
pub use taskqueue_core::definition::{Definition, Routes};
pub use taskqueue_core::explain::{Explanation, Reason};
pub use taskqueue_core::grouping::{GroupPage, ObservationGroupQuery, TaskDimension, TaskGroupQuery, WorkerDimension};
pub use taskqueue_core::ids::{QueueName, Route, RunId, TaskId};
pub use taskqueue_core::json::JsonObject;
pub use taskqueue_core::lifecycle::{RunReport, TaskAction};
pub use taskqueue_core::limits::{LEASE_SECONDS, PAGE_BYTES, TASK_DATA_BYTES};
pub use taskqueue_core::observation::{Observation, Report, WorkerStatus};
pub use taskqueue_core::refusal::Refusal;
pub use taskqueue_core::scheduling::{Dependencies, OnDependencyFailure, RetryDelay, SchedulingFields};
pub use taskqueue_core::selection::{ObservationQuery, OrderField, Page, TaskOrder, TaskQuery, TaskSelection};
pub use taskqueue_core::settings::{QueueSettings, Retention, RetentionPatch, RouteLimitsPatch, SettingsPatch};
pub use taskqueue_core::stats::{ActivitySeries, PendingDetail, QueueStats, RouteSelection, SeriesSelection};
pub use taskqueue_core::task::{Failure, FinishedRun, LastError, Lifecycle, Outcome, Progress, RunEnd, Status, Task};
pub use taskqueue_core::task_view::TaskView;
pub use taskqueue_core::time::Timestamp;
pub use taskqueue_core::update::Update;

pub use super::any_command::{AnyAnswer, AnyCommand, Write, upkeep};
pub use super::commands::*;
pub use super::counts::assert_kept_counts_are_right;
pub use super::fixture::{Fixture, START, visible, without_seq};
pub use super::generate::{Generator, QUEUES, Step};
pub use super::model::ModelStore;
pub use super::queued::{queued, wait};
pub use super::random::Random;
pub use super::{FOUND_AT_ONCE, ManualClock, Storage};
pub use crate::activity::save_activity;
pub use crate::clock::Clock;
pub use crate::command::*;
pub use crate::transaction::QueueKey;
pub use crate::{Store, StoreError, StoreExt, commands};
