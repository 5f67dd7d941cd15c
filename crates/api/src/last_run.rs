//! Who ran a task last: the field that tasks have whose claim said it.

use taskqueue_core::filter::LastRunFields;
use taskqueue_core::ids::RunId;
use taskqueue_core::json::{JsonObject, ObjectWriter};
use utoipa::ToSchema;

use crate::object_reader::{ObjectReader, Unreadable};
use crate::schema;
use crate::wire_value::WireValue;

/// Who ran a task last, as its claim said.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
pub struct LastRun {
    /// The attempt that the claim began.
    #[schema(minimum = 1)]
    pub attempt: i64,
    /// What the claimant said of itself.
    #[schema(value_type = Object)]
    pub worker: JsonObject,
    /// The run, once it is over; null while it is active.
    #[schema(value_type = Option<schema::RunId>, required = true)]
    pub run_id: Option<RunId>,
}

impl WireValue for LastRun {
    type View<'a> = LastRunFields<'a>;

    fn view(&self) -> LastRunFields<'_> {
        let run_id = self.run_id.as_ref().map(RunId::as_str);
        LastRunFields { attempt: self.attempt, worker: self.worker.as_str(), run_id }
    }

    fn write(out: &mut Vec<u8>, run: LastRunFields<'_>) {
        ObjectWriter::append_to(out)
            .integer("attempt", run.attempt)
            .json("worker", run.worker)
            .text_or_null("run_id", run.run_id)
            .end();
    }

    fn read(object: &ObjectReader<'_>, name: &'static str) -> Result<Self, Unreadable> {
        let run = object.object(name)?;
        Ok(Self {
            attempt: run.integer("attempt")?,
            worker: run.json("worker")?,
            run_id: run.nullable("run_id", |run, name| run.parsed(name, RunId::parse))?,
        })
    }
}
