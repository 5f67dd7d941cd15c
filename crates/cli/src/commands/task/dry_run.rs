//! `--dry-run` of commands that create many tasks: shows what would be created, and sends nothing.

use taskqueue_core::words;

use super::planned_task::{Origin, PlannedTask};
use crate::args::Format;
use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::output::{self, Listing, PlannedRecord};

/// Rows of the table. Programs get all tasks.
const ROWS_SHOWN: u64 = 10;

/// Further refusals are only counted.
const REFUSALS_SHOWN: u64 = 20;

#[derive(Debug)]
pub(super) struct DryRun<'s> {
    listing: Listing<'s>,
    rows_max: u64,
    count: u64,
    refused: u64,
}

impl<'s> DryRun<'s> {
    pub(super) fn new(context: &'s ClientContext) -> Self {
        let printer = &context.printer;
        let rows_max = if printer.format() == Format::Table { ROWS_SHOWN } else { u64::MAX };
        Self { listing: printer.listing::<PlannedRecord<'_>>(), rows_max, count: 0, refused: 0 }
    }

    pub(super) fn add(&mut self, planned: &PlannedTask) -> Result<(), Failure> {
        self.count += 1;
        if self.count > self.rows_max {
            return Ok(());
        }
        self.listing.push(&PlannedRecord { id: planned.id, creation: &planned.creation })
    }

    pub(super) fn refuse(&mut self, origin: Origin, reason: &str) {
        self.refused += 1;
        if self.refused <= REFUSALS_SHOWN {
            output::warning(&format!("{origin}: {reason}"));
        }
    }

    pub(super) fn finish(self) -> Result<(), CommandError> {
        self.listing.finish()?;
        if self.refused > REFUSALS_SHOWN {
            output::warning(&format!("{} more would be refused", self.refused - REFUSALS_SHOWN));
        }
        let tasks = words::count(self.count, "task");
        let them = if self.count == 1 { "it is not" } else { "none of them" };
        let mut sentence = format!("{tasks}, {them} created");
        if self.count > self.rows_max {
            sentence.push_str(&format!("; these are the first {}, --output jsonl shows all", self.rows_max));
        }
        output::note(&sentence);
        if self.refused == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
    }
}
