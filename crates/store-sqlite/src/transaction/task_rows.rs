//! Saves the rows of one task, whose columns hold several things packed together: what does not change of a column is loaded
//! first.

use rusqlite::params;
use taskqueue_core::json::JsonObject;
use taskqueue_core::task::{Outcome, TaskHead};
use taskqueue_core::update::Documents;
use taskqueue_store::transaction::{Loaded, TaskKey};

use super::{NO_TASK, SqliteTransaction};
use crate::rows::{self, PackedDocuments, PackedHead, PackedOutcome};
use crate::statements as sql;

/// The outcome of a task after a change.
pub(super) struct OutcomeAfter {
    outcome: Outcome,
    /// Whether the task had an outcome before.
    had_row: bool,
}

impl SqliteTransaction<'_> {
    /// Saves the narrow row and the outcome, as far as they have changed.
    pub(super) fn save_rows(
        &self,
        key: TaskKey,
        (before, after): (&TaskHead, &TaskHead),
        outcome: Option<&OutcomeAfter>,
    ) -> Loaded<()> {
        let Some(OutcomeAfter { outcome, had_row }) = outcome else {
            return self.save_head(key, (before, after));
        };
        // Most tasks have no result and no error. They need no row.
        let outcome_key = (*outcome != Outcome::empty()).then_some(key.0);
        match outcome_key {
            Some(key) => {
                let values = params![key, PackedOutcome::of(outcome).pack()];
                self.run(sql::SAVE_OUTCOME, values, "saving an outcome")?;
            }
            None => drop(self.run(sql::DELETE_OUTCOME, [key.0], "clearing an outcome")?),
        }
        if *had_row == outcome_key.is_some() {
            return self.save_head(key, (before, after));
        }
        let values = params![key.0, after.lifecycle.status.as_str(), PackedHead::of(after).pack(), outcome_key];
        self.run(sql::SAVE_HEAD_AND_OUTCOME_KEY, values, "saving a task").map(drop)
    }

    /// Progress of the same size as before changes nothing here.
    fn save_head(&self, key: TaskKey, (before, after): (&TaskHead, &TaskHead)) -> Loaded<()> {
        if before == after {
            return Ok(());
        }
        let values = params![key.0, after.lifecycle.status.as_str(), PackedHead::of(after).pack()];
        self.run(sql::SAVE_HEAD, values, "saving a task").map(drop)
    }

    /// The outcome of a task after this change, if it is another one.
    pub(super) fn changed_outcome(
        &self,
        key: TaskKey,
        change: impl FnOnce(&mut Outcome),
    ) -> Loaded<Option<OutcomeAfter>> {
        let loaded = self.one(sql::LOAD_OUTCOME, [key.0], "loading an outcome", rows::outcome)?;
        let had_row = loaded.is_some();
        let before = loaded.unwrap_or_else(Outcome::empty);
        let mut outcome = before.clone();
        change(&mut outcome);
        Ok((outcome != before).then_some(OutcomeAfter { outcome, had_row }))
    }

    /// Saves what is given of args and metadata.
    pub(super) fn save_documents(
        &self,
        key: TaskKey,
        args: Option<&JsonObject>,
        metadata: Option<&JsonObject>,
    ) -> Loaded<()> {
        let loaded: Documents;
        let (args, metadata) = match (args, metadata) {
            (None, None) => return Ok(()),
            (Some(args), Some(metadata)) => (args, metadata),
            (args, metadata) => {
                loaded = self.load_own_documents(key)?;
                (args.unwrap_or(&loaded.args), metadata.unwrap_or(&loaded.metadata))
            }
        };
        let packed = PackedDocuments { args: args.as_str(), metadata: metadata.as_str() }.pack();
        self.run(sql::SAVE_DOCUMENTS, params![key.0, packed], "updating a task").map(drop)
    }

    pub(super) fn load_own_documents(&self, key: TaskKey) -> Loaded<Documents> {
        self.one(sql::LOAD_DOCUMENTS, [key.0], "loading a task", rows::documents)?.ok_or(NO_TASK)
    }
}
