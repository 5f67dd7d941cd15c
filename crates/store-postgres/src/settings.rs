//! The settings of queues, in the rows of the queues (docs/decisions/0064). A batch loads them with the queues that it holds; a change
//! of them has its queue alone.

use std::sync::Arc;

use taskqueue_core::ids::QueueName;
use taskqueue_core::settings::{QueueSettings, Retention};
use taskqueue_core::task::{Lifecycle, Status};
use taskqueue_store::transaction::{Loaded, QueueKey};
use tokio_postgres::{Error, Row};

use crate::claim_turns::takes_turns;
use crate::ended;
use crate::reads::{Read, no_queue};
use crate::rows;
use crate::session::Session;
use crate::statements as sql;
use crate::transaction::PostgresTransaction;

/// The settings of a queue. One statement.
pub(crate) async fn queue_settings(session: &Session, queue: &QueueName) -> Read<QueueSettings> {
    let row = session.first(&sql::GET_SETTINGS, &[&queue.as_str()]).await?.ok_or_else(|| no_queue(queue))?;
    Ok(rows::settings(&row)?.map(Arc::unwrap_or_clone).unwrap_or_default())
}

/// What is wrong with the settings of a queue, or with what is derived from them, for a check.
pub(crate) fn wrong_settings(row: &Row) -> Option<String> {
    let name = rows::queue_name(row).map_or_else(|_| "without a name".to_owned(), |name| name.to_string());
    let Ok(settings) = rows::settings(row) else {
        return Some(format!("the settings of queue {name} cannot be read"));
    };
    let settings = settings.unwrap_or_default();
    let mut limited: Vec<&str> = Retention::STATUSES
        .into_iter()
        .filter(|status| settings.retention.seconds(*status).is_some())
        .map(Status::as_str)
        .collect();
    limited.sort_unstable();
    let is_right = row.try_get("takes_turns").is_ok_and(|takes: bool| takes == takes_turns(&settings))
        && row.try_get("has_turn").is_ok_and(|has: bool| has == settings.limits_claims())
        && row.try_get("limited_states").is_ok_and(|states: Vec<&str>| states == limited);
    (!is_right).then(|| format!("what is derived from the settings of queue {name} is not what they say"))
}

/// Saves the settings of a queue, which the transaction has alone, and what follows from them for its tasks.
pub(crate) async fn save(
    session: &Session,
    queue: QueueKey,
    before: &QueueSettings,
    after: &QueueSettings,
) -> Result<(), Error> {
    let text = (*after != QueueSettings::default()).then(|| after.to_json());
    session.execute(&sql::SAVE_SETTINGS, &[&queue.0, &text, &takes_turns(after)]).await?;
    match (before.limits_claims(), after.limits_claims()) {
        (false, true) => {
            session.execute(&sql::INSERT_TURN, &[&queue.0]).await?;
            session.execute(&sql::COUNT_FROM_NOW_ON, &[&queue.0]).await?;
        }
        (true, false) => {
            session.execute(&sql::DELETE_TURN, &[&queue.0]).await?;
            session.execute(&sql::COUNT_NO_MORE, &[&queue.0]).await?;
        }
        (true, true) | (false, false) => {}
    }
    ended::save_retention(session, queue, &before.retention, &after.retention).await
}

impl PostgresTransaction<'_> {
    /// The settings of a queue; nothing if they are the default.
    pub(crate) fn settings_of(&mut self, queue: QueueKey) -> Loaded<Option<Arc<QueueSettings>>> {
        if let Some(known) = self.rows.settings.get(&queue) {
            return Ok(known.clone());
        }
        // The batch does not name the queue: a scan, or upkeep.
        let (session, keys) = (self.session, vec![queue.0]);
        let row = self.wait("loading settings", async { session.first(&sql::LOAD_SETTINGS, &[&keys]).await })?;
        let settings = row.as_ref().map(rows::settings).transpose()?.flatten();
        self.rows.settings.insert(queue, settings.clone());
        Ok(settings)
    }

    /// Called before a task changes. If it has ended, or does so now, the settings say whether that is noted (`ended.rs`).
    pub(crate) fn know_settings(&mut self, queue: QueueKey, lifecycles: &[&Lifecycle]) -> Loaded<()> {
        if lifecycles.iter().any(|lifecycle| lifecycle.status.is_ended()) {
            self.settings_of(queue)?;
        }
        Ok(())
    }

    pub(crate) fn save_settings_of(&mut self, queue: QueueKey, settings: &QueueSettings) -> Loaded<()> {
        let (session, before) = (self.session, self.settings_of(queue)?.unwrap_or_default());
        if self.rows.new_queues.values().any(|new| *new == queue) {
            // Its row has to be there.
            self.send()?;
        }
        self.wrote = true;
        self.wait("saving settings", save(session, queue, &before, settings))?;
        let kept = (*settings != QueueSettings::default()).then(|| Arc::new(settings.clone()));
        self.rows.settings.insert(queue, kept);
        Ok(())
    }
}
