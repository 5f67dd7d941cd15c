//! The worker protocol: the bodies of claim, heartbeat, progress, complete, fail and unclaim, and the answers to claim and
//! heartbeat. Output is in `output.rs`.

use std::borrow::BorrowMut;
use std::time::Duration;

use taskqueue_core::ids::{Route, RunId};
use taskqueue_core::json::{JsonObject, ObjectWriter, Value, write_value};
use taskqueue_core::task::{self, Failure};
use taskqueue_core::time::Timestamp;
use utoipa::ToSchema;

use crate::ErrorCode;
use crate::body::{Body, BodyErrors, Location, Members, field};
use crate::object_reader::{ObjectReader, Unreadable};
use crate::schema;
use crate::task::Task;

/// A claim.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// What the worker claims for.
    #[schema(value_type = schema::Route)]
    pub route: Route,
    /// The token that the claimant chose.
    #[schema(value_type = schema::RunId)]
    pub run_id: RunId,
    /// What the worker says of itself, at most 4 KiB; shown with the task as `last_run`.
    #[schema(value_type = Option<Object>)]
    pub worker: Option<JsonObject>,
}

impl Body for ClaimRequest {
    const CODE: ErrorCode = ErrorCode::InvalidRequest;
    const FIELDS: &'static [&'static str] = &["route", "run_id", "worker"];

    fn read(value: &Value<'_>, at: Location<'_>, errors: &mut BodyErrors) -> Option<Self> {
        let mut body = Members::of(value, at, Self::FIELDS, errors)?;
        let (route, run_id) = (body.required("route", field::route), body.required("run_id", field::run_id));
        let worker = body.optional("worker", field::claim_worker).flatten();
        Some(Self { route: route?, run_id: run_id?, worker })
    }

    fn write_fields<B: BorrowMut<Vec<u8>>>(&self, object: ObjectWriter<B>) -> ObjectWriter<B> {
        let object = object.text("route", self.route.as_str()).text("run_id", self.run_id.as_str());
        match &self.worker {
            Some(worker) => object.json("worker", worker.as_str()),
            None => object,
        }
    }
}

/// A heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    /// The claimant's token.
    #[schema(value_type = schema::RunId)]
    pub run_id: RunId,
    /// How far the run is. Null and absent are the same: the task keeps what it has.
    #[schema(value_type = Option<Object>)]
    pub progress: Option<JsonObject>,
}

impl Body for HeartbeatRequest {
    const CODE: ErrorCode = ErrorCode::InvalidRequest;
    const FIELDS: &'static [&'static str] = &["run_id", "progress"];

    fn read(value: &Value<'_>, at: Location<'_>, errors: &mut BodyErrors) -> Option<Self> {
        let mut body = Members::of(value, at, Self::FIELDS, errors)?;
        let (run_id, progress) =
            (body.required("run_id", field::run_id), body.optional("progress", field::or_absent(field::object)));
        Some(Self { run_id: run_id?, progress })
    }

    fn write_fields<B: BorrowMut<Vec<u8>>>(&self, object: ObjectWriter<B>) -> ObjectWriter<B> {
        let object = object.text("run_id", self.run_id.as_str());
        match &self.progress {
            Some(progress) => object.json("progress", progress.as_str()),
            None => object,
        }
    }
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgressRequest {
    /// The claimant's token.
    #[schema(value_type = schema::RunId)]
    pub run_id: RunId,
    /// Replaces what the run said before.
    #[schema(value_type = Object)]
    pub progress: JsonObject,
}

impl Body for ProgressRequest {
    const CODE: ErrorCode = ErrorCode::InvalidRequest;
    const FIELDS: &'static [&'static str] = &["run_id", "progress"];

    fn read(value: &Value<'_>, at: Location<'_>, errors: &mut BodyErrors) -> Option<Self> {
        let mut body = Members::of(value, at, Self::FIELDS, errors)?;
        let (run_id, progress) = (body.required("run_id", field::run_id), body.required("progress", field::object));
        Some(Self { run_id: run_id?, progress: progress? })
    }

    fn write_fields<B: BorrowMut<Vec<u8>>>(&self, object: ObjectWriter<B>) -> ObjectWriter<B> {
        object.text("run_id", self.run_id.as_str()).json("progress", self.progress.as_str())
    }
}

/// An unclaim.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RunRequest)]
pub struct UnclaimRequest {
    /// The claimant's token.
    #[schema(value_type = schema::RunId)]
    pub run_id: RunId,
    /// How long the task waits before it can be claimed again. Zero, null and absent are the same.
    #[schema(value_type = Option<f64>, minimum = 0)]
    pub delay_seconds: Option<Duration>,
}

impl Body for UnclaimRequest {
    const CODE: ErrorCode = ErrorCode::InvalidRequest;
    const FIELDS: &'static [&'static str] = &["run_id", "delay_seconds"];

    fn read(value: &Value<'_>, at: Location<'_>, errors: &mut BodyErrors) -> Option<Self> {
        let mut body = Members::of(value, at, Self::FIELDS, errors)?;
        let run_id = body.required("run_id", field::run_id);
        let delay_seconds = body.optional("delay_seconds", field::or_absent(field::seconds));
        Some(Self { run_id: run_id?, delay_seconds })
    }

    fn write_fields<B: BorrowMut<Vec<u8>>>(&self, object: ObjectWriter<B>) -> ObjectWriter<B> {
        write_seconds(object.text("run_id", self.run_id.as_str()), "delay_seconds", self.delay_seconds)
    }
}

/// Adds a number of seconds, if there is one.
fn write_seconds<B: BorrowMut<Vec<u8>>>(
    object: ObjectWriter<B>,
    name: &str,
    seconds: Option<Duration>,
) -> ObjectWriter<B> {
    match seconds {
        Some(time) => object.field(name, |out| write_value(out, &Value::Float(time.as_secs_f64()))),
        None => object,
    }
}

/// A completion.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteRequest {
    /// The claimant's token.
    #[schema(value_type = schema::RunId)]
    pub run_id: RunId,
    /// What came out.
    #[schema(value_type = Object)]
    pub result: JsonObject,
}

impl Body for CompleteRequest {
    const CODE: ErrorCode = ErrorCode::InvalidRequest;
    const FIELDS: &'static [&'static str] = &["run_id", "result"];

    fn read(value: &Value<'_>, at: Location<'_>, errors: &mut BodyErrors) -> Option<Self> {
        let mut body = Members::of(value, at, Self::FIELDS, errors)?;
        let (run_id, result) = (body.required("run_id", field::run_id), body.required("result", field::object));
        Some(Self { run_id: run_id?, result: result? })
    }

    fn write_fields<B: BorrowMut<Vec<u8>>>(&self, object: ObjectWriter<B>) -> ObjectWriter<B> {
        object.text("run_id", self.run_id.as_str()).json("result", self.result.as_str())
    }
}

/// A failure of a run.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailRequest {
    /// The claimant's token.
    #[schema(value_type = schema::RunId)]
    pub run_id: RunId,
    /// What went wrong.
    #[schema(value_type = FailureSchema)]
    pub error: Failure,
    /// False: the task has failed at once, whatever is left of its budget. True, null and absent are the same.
    #[schema(value_type = Option<bool>, default = true)]
    pub retry: bool,
    /// How long the task waits before it can be claimed again, instead of its own `retry_delay`. Null and absent are the same.
    #[schema(value_type = Option<f64>, minimum = 0)]
    pub retry_after_seconds: Option<Duration>,
}

impl Body for FailRequest {
    const CODE: ErrorCode = ErrorCode::InvalidRequest;
    const FIELDS: &'static [&'static str] = &["run_id", "error", "retry", "retry_after_seconds"];

    fn read(value: &Value<'_>, at: Location<'_>, errors: &mut BodyErrors) -> Option<Self> {
        let mut body = Members::of(value, at, Self::FIELDS, errors)?;
        let run_id = body.required("run_id", field::run_id);
        let error = body.required("error", |value, at, errors| Failure::read(value, *at, errors));
        let retry = body.optional("retry", field::flag).unwrap_or(true);
        let retry_after_seconds = body.optional("retry_after_seconds", field::or_absent(field::seconds));
        Some(Self { run_id: run_id?, error: error?, retry, retry_after_seconds })
    }

    fn write_fields<B: BorrowMut<Vec<u8>>>(&self, object: ObjectWriter<B>) -> ObjectWriter<B> {
        let object = object.text("run_id", self.run_id.as_str());
        let object = object.object("error", |error| self.error.write_fields(error));
        // Left out where it says nothing: a server that does not know it refuses it.
        let object = if self.retry { object } else { object.boolean("retry", false) };
        write_seconds(object, "retry_after_seconds", self.retry_after_seconds)
    }
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
        let traceback = error.optional("traceback", field::text_or_null).flatten();
        Some(Self { kind: kind?, message: message?, traceback })
    }

    fn write_fields<B: BorrowMut<Vec<u8>>>(&self, object: ObjectWriter<B>) -> ObjectWriter<B> {
        object
            .text("type", &self.kind)
            .text("message", &self.message)
            .text_or_null("traceback", self.traceback.as_deref())
    }
}

/// A claimed task.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[schema(as = Claimed)]
pub struct Claim {
    /// The task, now running.
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

/// A renewed lease.
#[derive(ToSchema)]
pub struct Lease {
    /// When the lease is over unless another heartbeat renews it.
    #[schema(value_type = schema::Timestamp)]
    pub lease_expires_at: Timestamp,
}

impl Lease {
    pub fn write(out: &mut Vec<u8>, lease_expires_at: Timestamp) {
        ObjectWriter::append_to(out).time("lease_expires_at", lease_expires_at).end();
    }

    pub fn read(value: &Value<'_>) -> Result<Timestamp, Unreadable> {
        ObjectReader::of(value, "heartbeat")?.time("lease_expires_at")
    }
}
