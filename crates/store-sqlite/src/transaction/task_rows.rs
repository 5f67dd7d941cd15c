//! Saves the rows of one task, whose columns hold several things packed together: what does not change of a column is loaded
//! first.

use rusqlite::params;
use taskqueue_core::json::JsonObject;
use taskqueue_core::lifecycle::{ErrorChange, LastRunChange};
use taskqueue_core::task::{Outcome, TaskHead};
use taskqueue_core::update::Documents;
use taskqueue_store::transaction::{Loaded, TaskKey};

use super::{NO_TASK, SqliteTransaction};
use crate::rows::{self, PackedDocuments, PackedHead, PackedOutcome};
use crate::statements as sql;

impl SqliteTransaction<'_> {
    /// Saves the narrow row, and the outcome if it has changed.
    pub(super) fn save_rows(&self, key: TaskKey, head: &TaskHead, outcome: Option<&Outcome>) -> Loaded<()> {
        let (status, packed) = (head.lifecycle.status.as_str(), PackedHead::of(head).pack());
        let Some(outcome) = outcome else {
            return self.run(sql::SAVE_HEAD, params![key.0, status, packed], "saving a task").map(drop);
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
        let values = params![key.0, status, packed, outcome_key];
        self.run(sql::SAVE_HEAD_AND_OUTCOME_KEY, values, "saving a task").map(drop)
    }

    /// The outcome of a task after this change, if it is another one.
    pub(super) fn changed_outcome(
        &self,
        key: TaskKey,
        result: Option<&JsonObject>,
        last_error: &ErrorChange,
        last_run: &LastRunChange,
    ) -> Loaded<Option<Outcome>> {
        if result.is_none() && *last_error == ErrorChange::Keep && *last_run == LastRunChange::Keep {
            return Ok(None);
        }
        let loaded = self.one(sql::LOAD_OUTCOME, [key.0], "loading an outcome", rows::outcome)?;
        let before = loaded.unwrap_or_else(Outcome::empty);
        let after = Outcome {
            result: result.unwrap_or(&before.result).clone(),
            last_error: match last_error {
                ErrorChange::Keep => before.last_error.clone(),
                ErrorChange::Clear => None,
                ErrorChange::Set(error) => Some(error.clone()),
            },
            progress: before.progress.clone(),
            last_run: match last_run {
                LastRunChange::Keep => before.last_run.clone(),
                LastRunChange::Clear => None,
                LastRunChange::Set(run) => Some(run.clone()),
            },
        };
        Ok((after != before).then_some(after))
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
