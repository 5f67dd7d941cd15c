//! Why a task is not claimed, for programs: all of it as JSON, or each reason.

use taskqueue_api::explain::write_members;
use taskqueue_client::{ExplainedReason, Explanation};
use taskqueue_core::json::{ObjectWriter, write_array};
use taskqueue_core::time::Timestamp;

use crate::output::{Cell, Column, Record};

/// All reasons.
#[derive(Debug)]
pub(crate) struct ExplanationRecord<'a>(pub(crate) &'a Explanation);

impl Record for ExplanationRecord<'_> {
    const COLUMNS: &'static [Column<'static>] = &[Column::text("CLAIMABLE")];

    const FIELDS: &'static [&'static str] = &["claimable"];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        vec![Cell::new(self.0.claimable.to_string())]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        ObjectWriter::append_to(out)
            .boolean("claimable", self.0.claimable)
            .field("reasons", |out| {
                write_array(out, &self.0.reasons, |out, reason| ReasonRecord(reason).write_json(out));
            })
            .end();
    }

    fn key(&self) -> String {
        self.0.claimable.to_string()
    }
}

/// One reason.
#[derive(Debug)]
pub(crate) struct ReasonRecord<'a>(pub(crate) &'a ExplainedReason);

impl Record for ReasonRecord<'_> {
    const COLUMNS: &'static [Column<'static>] = &[Column::text("CODE"), Column::shrinking("MESSAGE")];

    const FIELDS: &'static [&'static str] = &["code", "message"];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        vec![Cell::new(&self.0.code), Cell::new(&self.0.message)]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        let ExplainedReason { code, message, reason } = self.0;
        let object = ObjectWriter::append_to(out).text("code", code).text("message", message);
        match reason {
            None => object,
            Some(reason) => write_members(object, reason),
        }
        .end();
    }

    fn key(&self) -> String {
        self.0.code.clone()
    }
}
