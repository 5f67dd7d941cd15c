//! The worker protocol: the bodies of claim, heartbeat, progress, complete, fail and unclaim, and the answers to claim and
//! heartbeat. Output is in `output.rs`.

use std::borrow::BorrowMut;
use std::time::Duration;

use taskqueue_core::json::{JsonObject, ObjectWriter, Value};
use taskqueue_core::lifecycle::RunReport;
use taskqueue_core::limits::CLAIM_WORKER_BYTES;
use taskqueue_core::task::{self, Failure};
use taskqueue_core::{Route, RunId, Timestamp};
use utoipa::ToSchema;

use crate::ErrorCode;
use crate::body::{Body, BodyErrors, Location, Members, field, request_body};
use crate::object_reader::{ObjectReader, Unreadable, WireValue, wire_object};
use crate::schema;
use crate::task::{Task, TaskSchema};

request_body! {
    /// A claim.
    ClaimRequest, InvalidRequest;
    /// What the worker claims for.
    #[schema(value_type = schema::Route)]
    route: Route = required(field::route),
    /// The token that the claimant chose.
    #[schema(value_type = schema::RunId)]
    run_id: RunId = required(field::run_id),
    /// What the worker says of itself, at most 4 KiB; shown with the task as `last_run`.
    #[schema(value_type = Option<Object>)]
    worker: Option<JsonObject> = optional(field::or_absent(field::small_object::<CLAIM_WORKER_BYTES>)),
}

request_body! {
    /// A heartbeat.
    HeartbeatRequest, InvalidRequest;
    /// The claimant's token.
    #[schema(value_type = schema::RunId)]
    run_id: RunId = required(field::run_id),
    /// How far the run is. Null and absent are the same: the task keeps what it has.
    #[schema(value_type = Option<Object>)]
    progress: Option<JsonObject> = optional(field::or_absent(field::object)),
}

request_body! {
    /// How far a run is.
    ProgressRequest, InvalidRequest;
    /// The claimant's token.
    #[schema(value_type = schema::RunId)]
    run_id: RunId = required(field::run_id),
    /// Replaces what the run said before.
    #[schema(value_type = Object)]
    progress: JsonObject = required(field::object),
}

request_body! {
    /// An unclaim.
    #[schema(as = RunRequest)]
    UnclaimRequest, InvalidRequest;
    /// The claimant's token.
    #[schema(value_type = schema::RunId)]
    run_id: RunId = required(field::run_id),
    /// How long the task waits before it can be claimed again. Zero, null and absent are the same.
    #[schema(value_type = Option<f64>, minimum = 0)]
    delay_seconds: Option<Duration> = optional(field::or_absent(field::seconds)),
}

request_body! {
    /// A completion.
    CompleteRequest, InvalidRequest;
    /// The claimant's token.
    #[schema(value_type = schema::RunId)]
    run_id: RunId = required(field::run_id),
    /// What came out.
    #[schema(value_type = Object)]
    result: JsonObject = required(field::object),
}

request_body! {
    /// A failure of a run.
    FailRequest, InvalidRequest;
    /// The claimant's token.
    #[schema(value_type = schema::RunId)]
    run_id: RunId = required(field::run_id),
    /// What went wrong.
    #[schema(value_type = FailureSchema)]
    error: Failure = nested,
    /// False: the task has failed at once, whatever is left of its budget. True, null and absent are the same.
    #[schema(value_type = Option<bool>, default = true)]
    retry: bool = default(true, field::flag),
    /// How long the task waits before it can be claimed again, instead of its own `retry_delay`. Null and absent are the same.
    #[schema(value_type = Option<f64>, minimum = 0)]
    retry_after_seconds: Option<Duration> = optional(field::or_absent(field::seconds)),
}

/// What went wrong.
#[derive(ToSchema)]
#[schema(as = Failure)]
#[serde(deny_unknown_fields)]
pub struct FailureSchema {
    /// The kind of error.
    #[schema(rename = "type")]
    pub kind: String,
    /// What went wrong.
    pub message: String,
    /// Where, if known.
    pub traceback: Option<String>,
}

/// The `error` of a failure.
impl Body for Failure {
    const CODE: ErrorCode = ErrorCode::InvalidRequest;
    const FIELDS: &'static [&'static str] = &["type", "message", "traceback"];

    fn read(value: &Value<'_>, at: Location<'_>, errors: &mut BodyErrors) -> Option<Self> {
        let mut error = Members::of(value, at, Self::FIELDS, errors)?;
        let (kind, message) = (error.required("type", field::text), error.required("message", field::text));
        let traceback = error.optional("traceback", field::or_absent(field::text));
        Some(Self { kind: kind?, message: message?, traceback })
    }

    fn write_fields<B: BorrowMut<Vec<u8>>>(&self, object: ObjectWriter<B>) -> ObjectWriter<B> {
        object
            .text("type", &self.kind)
            .text("message", &self.message)
            .text_or_null("traceback", self.traceback.as_deref())
    }
}

/// Adds the fields of the body with which a run is ended in this way.
pub fn write_report<B: BorrowMut<Vec<u8>>>(
    object: ObjectWriter<B>,
    run_id: RunId,
    report: &RunReport,
) -> ObjectWriter<B> {
    match report.clone() {
        RunReport::Complete { result } => CompleteRequest { run_id, result }.write_fields(object),
        RunReport::Fail { failure: error, retry, retry_after: retry_after_seconds } => {
            FailRequest { run_id, error, retry, retry_after_seconds }.write_fields(object)
        }
        RunReport::Unclaim { delay: delay_seconds } => UnclaimRequest { run_id, delay_seconds }.write_fields(object),
    }
}

/// A claimed task.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[schema(as = Claimed)]
pub struct Claim {
    /// The task, now running.
    #[schema(value_type = TaskSchema)]
    pub task: Task,
    /// The token that the claimant chose.
    #[schema(value_type = schema::RunId)]
    pub run_id: RunId,
    /// When the lease is over unless a heartbeat renews it.
    #[schema(value_type = schema::Timestamp)]
    pub lease_expires_at: Timestamp,
}

impl Claim {
    pub fn write(out: &mut Vec<u8>, task: &task::Task, run_id: RunId, lease_expires_at: Timestamp) {
        ObjectWriter::append_to(out)
            .field("task", |out| Task::write(out, &task.view()))
            .text("run_id", run_id.as_str())
            .time("lease_expires_at", lease_expires_at)
            .end();
    }

    /// Reads the answer to a claim, which must be about the run that was asked for.
    pub fn read(value: &Value<'_>, run_id: RunId) -> Result<Self, Unreadable> {
        let claim = ObjectReader::of(value, "claim")?;
        if claim.parsed("run_id", RunId::parse)? != run_id {
            return Err(Unreadable("the claim is about another run".to_owned()));
        }
        let task = Task::read(claim.value("task")?)?;
        Ok(Self { task, run_id, lease_expires_at: claim.time("lease_expires_at")? })
    }
}

wire_object! {
    /// A renewed lease.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
    pub struct Lease, "heartbeat" {
        /// When the lease is over unless another heartbeat renews it.
        #[schema(value_type = schema::Timestamp)]
        pub lease_expires_at: Timestamp,
    }
}
