//! Worker observations: the report of a worker and what is known of it.

use std::borrow::BorrowMut;

use taskqueue_core::json::{JsonObject, ObjectWriter, Value};
use taskqueue_core::limits::{REPORT_METADATA_BYTES, TELEMETRY_BYTES};
use taskqueue_core::observation::{Report, Telemetry, WorkerStatus};
use taskqueue_core::{Observation, QueueName, Route, TaskId, WorkerId};
use utoipa::ToSchema;

use crate::ErrorCode;
use crate::body::{Body, BodyErrors, Location, Members, field, request_body};
use crate::object_reader::{ObjectReader, Unreadable, WireValue};
use crate::schema;

request_body! {
    /// What a worker reports of itself; the first three fields are required.
    WorkerReport for Report, InvalidRequest;
    /// The route it claims for; cannot change while the observation lives.
    #[schema(value_type = schema::Route)]
    route: Route = required(field::route),
    /// What it does.
    #[schema(value_type = schema::WorkerStatus)]
    status: WorkerStatus = required(field::worker_status),
    /// The task it works on; never looked up.
    #[schema(value_type = Option<schema::TaskId>, required = true)]
    task_id: Option<TaskId> = required(field::task_id_or_null),
    /// What else it says of itself, at most 16 KiB; shown with the observation.
    #[schema(value_type = Option<Object>, nullable = false)]
    metadata: JsonObject = default(JsonObject::empty(), field::small_object::<REPORT_METADATA_BYTES>),
}

/// The latest accepted report of one worker; advisory.
#[derive(ToSchema)]
#[schema(as = Observation)]
pub struct ObservationSchema {
    /// The worker.
    pub id: schema::WorkerId,
    /// The queue.
    pub queue: schema::QueueName,
    /// The route it claims for.
    pub route: schema::Route,
    /// What it does.
    pub status: schema::WorkerStatus,
    /// The task it works on; may be stale.
    #[schema(required = true)]
    pub task_id: Option<schema::TaskId>,
    /// When the report was accepted.
    pub last_seen_at: schema::Timestamp,
    /// When it stops counting: 300 seconds later.
    pub expires_at: schema::Timestamp,
    /// What else it says of itself; only there for workers that report it.
    #[schema(value_type = Option<Object>, nullable = false)]
    pub metadata: Option<JsonObject>,
    /// What it measured last; only there, with the next field, once there was any.
    #[schema(value_type = Option<Object>, nullable = false)]
    pub telemetry: Option<JsonObject>,
    /// When that was accepted.
    #[schema(value_type = Option<schema::Timestamp>, nullable = false)]
    pub telemetry_updated_at: Option<schema::Timestamp>,
}

request_body! {
    /// What a worker measures.
    TelemetryRequest, InvalidRequest;
    /// At most 16 KiB; replaces what it measured before.
    #[schema(value_type = Object)]
    telemetry: JsonObject = required(field::small_object::<TELEMETRY_BYTES>),
}

/// Appends an observation.
pub fn write_observation(out: &mut Vec<u8>, observation: &Observation) {
    let Observation { id, queue, report, telemetry, last_seen_at, expires_at } = observation;
    let object = ObjectWriter::append_to(out)
        .text("id", id.as_str())
        .text("queue", queue.as_str())
        .text("route", report.route.as_str())
        .text("status", report.status.as_str())
        .text_or_null("task_id", report.task_id.as_ref().map(TaskId::as_str))
        .time("last_seen_at", *last_seen_at)
        .time("expires_at", *expires_at);
    let metadata = Some(report.metadata.as_str()).filter(|_| !report.metadata.is_empty_object());
    let object = object.optional(metadata, |object, metadata| object.json("metadata", metadata));
    let object = object.optional(telemetry.as_ref(), |object, Telemetry { value, updated_at }| {
        object.json("telemetry", value.as_str()).time("telemetry_updated_at", *updated_at)
    });
    object.end();
}

/// Reads an observation.
pub fn read_observation(value: &Value<'_>) -> Result<Observation, Unreadable> {
    let observation = ObjectReader::of(value, "observation")?;
    let report = Report {
        route: observation.parsed("route", Route::parse)?,
        status: observation.parsed("status", WorkerStatus::parse)?,
        task_id: observation.nullable("task_id", |worker, name| worker.parsed(name, TaskId::parse))?,
        metadata: observation.optional("metadata", |worker, name| worker.json(name))?.unwrap_or(JsonObject::empty()),
    };
    let telemetry = match observation.optional("telemetry", |worker, name| worker.json(name))? {
        Some(value) => Some(Telemetry { value, updated_at: observation.time("telemetry_updated_at")? }),
        None => None,
    };
    Ok(Observation {
        id: observation.parsed("id", WorkerId::parse)?,
        queue: observation.parsed("queue", QueueName::parse)?,
        report,
        telemetry,
        last_seen_at: observation.time("last_seen_at")?,
        expires_at: observation.time("expires_at")?,
    })
}

/// One page of observations, ordered by id.
#[derive(ToSchema)]
pub struct ObservationPage {
    /// The observations.
    pub items: Vec<ObservationSchema>,
    /// The cursor of the next page; null exactly when no further observation exists.
    #[schema(required = true)]
    pub next_cursor: Option<String>,
}
