//! The writes of output.

use taskqueue_store::transaction::TaskKey;
use tokio_postgres::types::ToSql;

use super::Write;
use crate::output_rows::OutputWrite;
use crate::rows::{offset_column, parts_text};
use crate::session::Sql;
use crate::statements as sql;
use crate::transaction_rows::TransactionRows;

sets! {
    Outputs of OutputRow {
        key: i64,
        run_id: &'a str,
        attempt: i64,
        parts: String,
        last_start: i64,
        end: i64,
        bytes: i64,
    }

    Pieces of Piece { key: i64, start: i64, bytes: &'a [u8], }
}

/// Tasks, and an offset for each.
#[derive(Default)]
struct Offsets {
    keys: Vec<i64>,
    offsets: Vec<i64>,
}

impl Offsets {
    fn extend(&mut self, key: TaskKey, at: Option<u64>) {
        self.keys.extend(at.map(|_| key.0));
        self.offsets.extend(at.map(offset_column));
    }

    fn write(&self, sql: &'static Sql) -> Option<Write<'_>> {
        let params: Vec<&(dyn ToSql + Sync)> = vec![&self.keys, &self.offsets];
        (!self.keys.is_empty()).then_some((sql, params))
    }
}

#[derive(Default)]
pub(super) struct OutputWrites<'a> {
    cut: Offsets,
    appended: Pieces<'a>,
    deleted: Offsets,
    inserted: Pieces<'a>,
    outputs: Outputs<'a>,
}

impl<'a> OutputWrites<'a> {
    pub(super) fn of(rows: &'a TransactionRows) -> Self {
        let mut writes = Self::default();
        for (key, output) in &rows.outputs {
            // What a task has printed goes with it.
            let is_there = rows.tasks.get(key).is_some_and(|entry| !entry.deleted);
            if let Some(output) = output.write().filter(|_| is_there) {
                writes.add(*key, &output);
            }
        }
        writes
    }

    fn add(&mut self, key: TaskKey, write: &OutputWrite<'a>) {
        self.cut.extend(key, write.cut_at);
        self.deleted.extend(key, write.delete_before);
        if let Some((start, bytes)) = write.appended {
            self.appended.push(Piece { key: key.0, start: offset_column(start), bytes });
        }
        for (start, bytes) in write.inserted {
            self.inserted.push(Piece { key: key.0, start: offset_column(*start), bytes });
        }
        let kept = write.kept;
        self.outputs.push(OutputRow {
            key: key.0,
            run_id: kept.run_id.as_str(),
            attempt: kept.attempt,
            parts: parts_text(&kept.parts),
            last_start: offset_column(write.last_start),
            end: offset_column(kept.end()),
            bytes: offset_column(kept.parts.iter().map(|part| part.bytes()).sum()),
        });
    }

    /// A piece grows before it is judged whether all of it is pushed out, and what is pushed out is there no more when it comes
    /// back, or when another run prints at the same offset.
    pub(super) fn writes(&self) -> [Option<Write<'_>>; 5] {
        [
            self.appended.write(&sql::APPEND_OUTPUT),
            self.deleted.write(&sql::DELETE_OUTPUT_PIECES),
            self.cut.write(&sql::CUT_OUTPUT_PIECES),
            self.inserted.write(&sql::INSERT_OUTPUT_PIECES),
            self.outputs.write(&sql::SAVE_OUTPUTS),
        ]
    }
}
