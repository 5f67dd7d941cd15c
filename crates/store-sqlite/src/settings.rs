//! The settings of queues in the file: one row for each queue that has other ones than the default. The writer has them in memory
//! (`claim_index/queue_settings.rs`).

use rusqlite::{OptionalExtension, params};
use taskqueue_core::ids::QueueName;
use taskqueue_core::settings::QueueSettings;
use taskqueue_store::transaction::{Loaded, Queue, QueueKey};

use crate::reads::{Read, existing_queue};
use crate::rows;
use crate::snapshot::Snapshot;
use crate::statements as sql;
use crate::transaction::SqliteTransaction;

/// The settings of a queue.
pub(crate) fn queue_settings(file: &Snapshot<'_>, queue: &QueueName) -> Read<QueueSettings> {
    settings_of(file, existing_queue(file, queue)?)
}

/// The same by its key.
pub(crate) fn settings_of(file: &Snapshot<'_>, key: QueueKey) -> Read<QueueSettings> {
    let mut statement = file.connection.prepare_cached(sql::LOAD_SETTINGS)?;
    Ok(statement.query_row([key.0], rows::settings).optional()?.unwrap_or_default())
}

impl SqliteTransaction<'_> {
    pub(crate) fn save_queue_settings(&mut self, queue: Queue<'_>, settings: &QueueSettings) -> Loaded<()> {
        let before = self.claim_index.settings(queue.key).cloned().unwrap_or_default();
        if *settings == QueueSettings::default() {
            self.run(sql::DELETE_SETTINGS, [queue.key.0], "saving settings")?;
        } else {
            self.run(sql::SAVE_SETTINGS, params![queue.key.0, settings.to_json()], "saving settings")?;
        }
        self.claim_index.set_settings(queue.key, settings.clone());
        self.retention_changed(queue.key, &before.retention, &settings.retention)
    }
}
