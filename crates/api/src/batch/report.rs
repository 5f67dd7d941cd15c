//! `batch/report`: heartbeats, progress and ends of runs, and what became of each.

use std::borrow::{BorrowMut, Cow};

use taskqueue_core::json::{ObjectWriter, Reader, Value};
use taskqueue_core::lifecycle::RunReport;
pub use taskqueue_core::run_item::{RunAction, RunItem};
use taskqueue_core::{RunId, TaskId, Timestamp};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{ObjectBuilder, OneOfBuilder, RefOr, Type};
use utoipa::{PartialSchema, ToSchema};

use super::items::{BatchBody, BatchItem, IdFields, ItemError, ItemWeight, ReadPart, read_only_list, shown};
use super::writer::{self, BatchWriter, ItemsWriter, with_fields};
use crate::body::{Body, BodyErrors, Location};
use crate::error::Error;
use crate::object_reader::Unreadable;
use crate::run::{CompleteRequest, FailRequest, HeartbeatRequest, ProgressRequest, UnclaimRequest, write_report};
use crate::schema;

const IDS: IdFields = IdFields { outside: &["task_id", "action"], inside: &["run_id"] };
const ACTIONS: [&str; 5] = ["heartbeat", "complete", "fail", "unclaim", "progress"];

/// What runs report, each as a single request would.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportRunsRequest {
    /// The reports.
    #[schema(value_type = Vec<RunItemSchema>, min_items = 1, max_items = 1000)]
    pub reports: Vec<Result<RunItem, RefusedReport>>,
}

/// The ids of an item that is refused, shown up to a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunItemIds {
    pub task_id: String,
    pub run_id: String,
}

/// An item that is refused, and why.
pub type RefusedReport = Box<(RunItemIds, ItemError)>;

impl BatchBody for ReportRunsRequest {
    const FIELDS: &'static [&'static str] = &["reports"];

    fn read(reader: &mut Reader<'_>, errors: &mut BodyErrors) -> ReadPart<Self> {
        Ok(read_only_list(reader, errors, &["reports"], read_report)?.map(|reports| Self { reports }))
    }
}

fn read_report(
    reader: &mut Reader<'_>,
    at: &Location<'_>,
    errors: &mut BodyErrors,
    weight: &mut ItemWeight,
) -> ReadPart<Result<RunItem, RefusedReport>> {
    let Some(mut item) = BatchItem::read(reader, &IDS, at, errors)? else { return Ok(None) };
    let (task_id, run_id) = (item.take_text("task_id", at, errors), item.text("run_id", at, errors));
    let action = item.take_text("action", at, errors);
    let (Some(task_id), Some(run_id), Some(action)) = (task_id, run_id, action) else { return Ok(None) };
    let Some(action) = ACTIONS.into_iter().find(|known| action == *known) else {
        errors.add(&Location::Key(at, "action"), format!("use one of {}", ACTIONS.join(", ")));
        return Ok(None);
    };
    let read = read_body(&mut item, action).and_then(|(run_id, action)| match TaskId::parse(&task_id) {
        Some(task_id) => Ok(RunItem { task_id, run_id, action }),
        None => Err(ItemError::TaskId(shown(&task_id))),
    });
    Ok(Some(match read {
        Ok(report) => {
            weight.add(report.action.bytes())?;
            Ok(report)
        }
        Err(error) => Err(Box::new((RunItemIds { task_id: shown(&task_id), run_id: shown(&run_id) }, error))),
    }))
}

/// Reads what the single request of an action has as its body.
fn read_body(item: &mut BatchItem<'_>, action: &str) -> Result<(RunId, RunAction), ItemError> {
    Ok(match action {
        "complete" => {
            let CompleteRequest { run_id, result } = item.body()?;
            (run_id, RunAction::End(RunReport::Complete { result }))
        }
        "fail" => {
            let FailRequest { run_id, error: failure, retry, retry_after_seconds: retry_after } = item.body()?;
            (run_id, RunAction::End(RunReport::Fail { failure, retry, retry_after }))
        }
        "unclaim" => {
            let UnclaimRequest { run_id, delay_seconds: delay } = item.body()?;
            (run_id, RunAction::End(RunReport::Unclaim { delay }))
        }
        "progress" => {
            let ProgressRequest { run_id, progress } = item.body()?;
            (run_id, RunAction::Progress { progress })
        }
        _ => {
            let HeartbeatRequest { run_id, progress } = item.body()?;
            (run_id, RunAction::Heartbeat { progress })
        }
    })
}

/// Appends the fields of an item.
pub fn write_run_item<B: BorrowMut<Vec<u8>>>(item: &RunItem, object: ObjectWriter<B>) -> ObjectWriter<B> {
    let RunItem { task_id, run_id, action } = item;
    let (run_id, object) = (*run_id, object.text("task_id", task_id.as_str()).text("action", action.name()));
    match action {
        RunAction::End(report) => write_report(object, run_id, report),
        RunAction::Heartbeat { progress } => {
            HeartbeatRequest { run_id, progress: progress.clone() }.write_fields(object)
        }
        RunAction::Progress { progress } => ProgressRequest { run_id, progress: progress.clone() }.write_fields(object),
    }
}

impl ReportRunsRequest {
    /// A body without reports, to be filled by [`BatchWriter::push_report`].
    pub fn writer() -> BatchWriter {
        BatchWriter::begin("reports")
    }
}

impl BatchWriter {
    /// Adds a report. False if it does not fit: then nothing was added, and the report belongs into another batch.
    #[must_use]
    pub fn push_report(&mut self, item: &RunItem) -> bool {
        self.push(|object| write_run_item(item, object))
    }
}

/// What one run reports: what the single request of its action has as its body, the task and the action.
pub(super) struct RunItemSchema;

impl ToSchema for RunItemSchema {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("RunItem")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((schema::TaskId::name().into_owned(), schema::TaskId::schema()));
        UnclaimRequest::schemas(schemas);
        HeartbeatRequest::schemas(schemas);
        ProgressRequest::schemas(schemas);
        CompleteRequest::schemas(schemas);
        FailRequest::schemas(schemas);
    }
}

impl PartialSchema for RunItemSchema {
    fn schema() -> RefOr<Schema> {
        let item = |single, description, action: &str| {
            let action = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([action]));
            with_fields(single, description, "task_id", [("action", action.into())])
        };
        OneOfBuilder::new()
            .item(item(HeartbeatRequest::schema(), "Renews a lease.", "heartbeat"))
            .item(item(ProgressRequest::schema(), "Says how far a run is.", "progress"))
            .item(item(UnclaimRequest::schema(), "Gives the task back.", "unclaim"))
            .item(item(CompleteRequest::schema(), "Ends a run with a result.", "complete"))
            .item(item(FailRequest::schema(), "Ends a run with an error.", "fail"))
            .description(Some("What a run reports: the body of the single request, with the task and the action."))
            .into()
    }
}

/// What became of each report, in the order of the request.
#[derive(ToSchema)]
pub struct ReportedRuns {
    /// One for each report.
    pub items: Vec<ReportedItem>,
}

/// What became of a report.
#[derive(ToSchema)]
pub struct ReportedItem {
    /// The task, as it was sent.
    pub task_id: String,
    /// The token, as it was sent.
    pub run_id: String,
    /// Whether it was done or refused.
    pub outcome: ReportedOutcome,
    /// Of a heartbeat: when the lease is over unless another one renews it.
    #[schema(value_type = Option<schema::Timestamp>, nullable = false)]
    pub lease_expires_at: Option<Timestamp>,
    /// Why it was refused.
    #[schema(nullable = false)]
    pub error: Option<Error>,
}

/// What a report came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportedOutcome {
    /// It was done, now or when it was sent before.
    Done,
    /// See `error`.
    Refused,
}

impl ReportedRuns {
    /// Appends a report that was done; of a heartbeat with the end of the lease.
    pub fn write(out: &mut ItemsWriter, task_id: TaskId, run_id: RunId, lease_expires_at: Option<Timestamp>) {
        out.item(|item: ObjectWriter<_>| {
            let item = item.text("task_id", task_id.as_str()).text("run_id", run_id.as_str()).text("outcome", "done");
            item.optional(lease_expires_at, |item, at| item.time("lease_expires_at", at))
        });
    }

    /// Reads for each of these reports the end of its lease, which a heartbeat has, or why it was refused.
    pub fn read(value: &Value<'_>, reports: &[RunItem]) -> Result<Vec<Result<Option<Timestamp>, Error>>, Unreadable> {
        writer::read_items(value, reports, |item, outcome, RunItem { task_id, run_id, action }| {
            writer::expect(item, "task_id", task_id.as_str())?;
            writer::expect(item, "run_id", run_id.as_str())?;
            Ok(match outcome {
                // Without it nobody knows that the lease was renewed.
                "done" if matches!(action, RunAction::Heartbeat { .. }) => Some(Some(item.time("lease_expires_at")?)),
                "done" => Some(item.optional("lease_expires_at", |item, name| item.time(name))?),
                _ => None,
            })
        })
    }
}
