//! `batch/claim`: runs that each want a task of one route, and what each got.

use std::collections::HashSet;

use taskqueue_core::json::{JsonObject, ObjectWriter, Reader, Value, write_array, write_string};
use taskqueue_core::limits::{CLAIM_WORKER_BYTES, CLAIM_WORKER_ITEM_BYTES};
use taskqueue_core::{Route, RunId, Timestamp, task};
use utoipa::ToSchema;

use super::items::{BatchBody, ROOT, ReadField, ReadPart, read_fields, read_list, read_value, shown};
use super::writer::{self, ItemsWriter};
use crate::ErrorCode;
use crate::body::{BodyErrors, Invalid, Location, field};
use crate::error::Error;
use crate::object_reader::Unreadable;
use crate::run::Claim;
use crate::schema;
use crate::task::{Task, TaskSchema};

/// Claims of several runs for one route, each as a single request would claim.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimTasksRequest {
    /// What the worker claims for.
    #[schema(value_type = schema::Route)]
    pub route: Route,
    /// The tokens that the claimant chose, all different: each gets a task, as long as there are any.
    #[schema(value_type = Vec<schema::RunId>, min_items = 1, max_items = 1000)]
    pub run_ids: Vec<Result<RunId, RefusedRun>>,
    /// What the worker says of itself, at most 4 KiB; shown with the tasks as `last_run`.
    #[schema(value_type = Option<Object>)]
    pub worker: Option<JsonObject>,
    /// What differs for each run, in the order of `run_ids`: a merge patch of `worker` of at most 256 bytes. Nothing if nothing does.
    #[schema(value_type = Option<Vec<Object>>, nullable = false, min_items = 1, max_items = 1000)]
    pub workers: Vec<JsonObject>,
}

/// A text that is no run id, shown up to a limit, and why.
pub type RefusedRun = Box<(String, Invalid)>;

impl BatchBody for ClaimTasksRequest {
    const FIELDS: &'static [&'static str] = &["route", "run_ids", "worker", "workers"];

    fn read(reader: &mut Reader<'_>, errors: &mut BodyErrors) -> ReadPart<Self> {
        let (mut route, mut run_ids) = (ReadField::MISSING, ReadField::MISSING);
        let (mut worker, mut workers) = (ReadField::MISSING, ReadField::MISSING);
        let is_object = read_fields(reader, Self::FIELDS, errors, |reader, name| {
            let at = Location::Key(&ROOT, name);
            match name {
                "run_ids" => run_ids.set(|errors| read_run_ids(reader, &at, errors)),
                "workers" => workers.set(|errors| read_workers(reader, &at, errors)),
                "route" => route.set(|errors| {
                    let value = read_value(reader)?.unwrap_or(Value::Null);
                    Ok(field::route(&value, &at, errors))
                }),
                _ => worker.set(|errors| {
                    let Some(value) = read_value(reader)? else {
                        return Ok(errors.refuse(&at, field::too_long(CLAIM_WORKER_BYTES)));
                    };
                    Ok(field::or_null(field::small_object::<CLAIM_WORKER_BYTES>)(&value, &at, errors))
                }),
            }
        })?;
        if !is_object {
            return Ok(None);
        }
        // What is wrong is left out of what was read, so that it cannot be counted.
        let is_whole = !run_ids.is_wrong() && !workers.is_wrong();
        let (route, run_ids) = (route.required("route", errors), run_ids.required("run_ids", errors));
        let worker = worker.optional(errors).flatten();
        let workers = workers.optional(errors);
        let both = run_ids.as_ref().zip(workers.as_ref()).filter(|_| is_whole);
        if let Some(problem) = both.and_then(|(run_ids, workers)| misfit(run_ids.len(), worker.as_ref(), workers)) {
            errors.add(&Location::Key(&ROOT, "workers"), problem);
        }
        let workers = workers.unwrap_or_default();
        Ok(route.zip(run_ids).map(|(route, run_ids)| Self { route, run_ids, worker, workers }))
    }
}

/// Reads what each run adds to what the claimant says of itself.
fn read_workers(reader: &mut Reader<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> ReadPart<Vec<JsonObject>> {
    read_list(reader, at, errors, |reader, at, errors| {
        let Some(value) = read_value(reader)? else {
            return Ok(errors.refuse(at, field::too_long(CLAIM_WORKER_ITEM_BYTES)));
        };
        Ok(field::small_object::<CLAIM_WORKER_ITEM_BYTES>(&value, at, errors))
    })
}

/// Returns the mistake in so many runs and what is said for each.
fn misfit(runs: usize, worker: Option<&JsonObject>, workers: &[JsonObject]) -> Option<String> {
    let shared = worker.map_or(0, |worker| worker.as_str().len());
    let longest = workers.iter().map(|own| own.as_str().len()).max().unwrap_or(0);
    if workers.len() != runs {
        return Some("give one for each run id".to_owned());
    }
    (shared + longest > CLAIM_WORKER_BYTES)
        .then(|| format!("together with worker {}", field::too_long(CLAIM_WORKER_BYTES)))
}

fn read_run_ids<'a>(
    reader: &mut Reader<'a>,
    at: &Location<'_>,
    errors: &mut BodyErrors,
) -> ReadPart<Vec<Result<RunId, RefusedRun>>> {
    let mut seen = HashSet::new();
    read_list(reader, at, errors, |reader, at, errors| {
        if reader.skip_space() != Some(b'"') {
            reader.skip()?;
            return Ok(errors.refuse(at, "use a string"));
        }
        let text = match reader.value()? {
            Value::Str(text) => text,
            // Half a surrogate pair, which is no run id; whether it is the same as another one is not known.
            _ => return Ok(Some(Err(refused("\u{fffd}")))),
        };
        let read = RunId::parse(&text).ok_or_else(|| refused(&text));
        if !seen.insert(text) {
            errors.add(at, "name each run id only once");
        }
        Ok(Some(read))
    })
}

/// The error that the single request would get.
fn refused(text: &str) -> RefusedRun {
    let at = Location::Key(&ROOT, "run_id");
    Box::new((shown(text), Invalid::one(ErrorCode::InvalidRequest, &at, field::RUN_ID_RULE)))
}

impl ClaimTasksRequest {
    /// The bytes of a claim for these runs, of which there are at most [`BATCH_ITEMS`](taskqueue_core::limits::BATCH_ITEMS).
    /// `workers` is empty, or has one for each of them.
    pub fn encode(route: &Route, run_ids: &[RunId], worker: Option<&JsonObject>, workers: &[JsonObject]) -> Vec<u8> {
        let object = ObjectWriter::new().text("route", route.as_str());
        let object =
            object.field("run_ids", |out| write_array(out, run_ids, |out, run_id| write_string(out, run_id.as_str())));
        let object = object.optional(worker, |object, worker| object.json("worker", worker.as_str()));
        if workers.is_empty() {
            return object.end();
        }
        let write = |out: &mut Vec<u8>, own: &JsonObject| out.extend_from_slice(own.as_str().as_bytes());
        object.field("workers", |out| write_array(out, workers, write)).end()
    }
}

/// What each run got, in the order of the request.
#[derive(ToSchema)]
pub struct ClaimedTasks {
    /// One for each run.
    pub items: Vec<ClaimedItem>,
}

/// What a run got.
#[derive(ToSchema)]
pub struct ClaimedItem {
    /// The token, as it was sent.
    pub run_id: String,
    /// Whether it got a task, found none, or was refused.
    pub outcome: ClaimedOutcome,
    /// The task, now running.
    #[schema(nullable = false)]
    pub task: Option<TaskSchema>,
    /// When the lease is over unless a heartbeat renews it.
    #[schema(value_type = Option<schema::Timestamp>, nullable = false)]
    pub lease_expires_at: Option<Timestamp>,
    /// Why it was refused.
    #[schema(nullable = false)]
    pub error: Option<Error>,
}

/// What a claim came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClaimedOutcome {
    /// See `task`.
    Claimed,
    /// No pending task has this route, or it does not fit into the answer.
    None,
    /// See `error`.
    Refused,
}

impl ClaimedTasks {
    /// The most bytes of an item with this task.
    pub fn most_bytes(task: &task::Task) -> usize {
        const FRAME: &str = r#",{"run_id":"r_","outcome":"claimed","task":,"lease_expires_at":""}"#;
        FRAME.len() + 12 + "2026-01-31T12:00:00.000000Z".len() + Task::most_bytes(task)
    }

    /// Appends a claimed task.
    pub fn write(out: &mut ItemsWriter, task: &task::Task, run_id: RunId, lease_expires_at: Timestamp) {
        out.item(|item| {
            item.text("run_id", run_id.as_str())
                .text("outcome", "claimed")
                .field("task", |out| Task::write(out, &task.view()))
                .time("lease_expires_at", lease_expires_at)
        });
    }

    /// Appends a run that found no task.
    pub fn write_none(out: &mut ItemsWriter, run_id: RunId) {
        out.item(|item| item.text("run_id", run_id.as_str()).text("outcome", "none"));
    }

    /// Reads what each of these runs got, or why it was refused.
    pub fn read(value: &Value<'_>, run_ids: &[RunId]) -> Result<Vec<Result<Option<Claim>, Error>>, Unreadable> {
        writer::read_items(value, run_ids, |item, outcome, run_id| {
            writer::expect(item, "run_id", run_id.as_str())?;
            Ok(match outcome {
                "claimed" => {
                    let task = Task::read(item.value("task")?)?;
                    let lease_expires_at = item.time("lease_expires_at")?;
                    Some(Some(Claim { task, run_id: *run_id, lease_expires_at }))
                }
                "none" => Some(None),
                _ => None,
            })
        })
    }
}
