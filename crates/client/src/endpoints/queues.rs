//! The server itself (health and capabilities) and its queues: settings, stats and activity. The token is not sent with the first.

use reqwest::Method;
use taskqueue_api::capabilities::{Capabilities, Health};
use taskqueue_api::paths;
use taskqueue_api::queue::{Queue, read_settings};
use taskqueue_api::stats::{Series, Stats};
use taskqueue_core::ids::QueueName;
use taskqueue_core::settings::{QueueSettings, SettingsPatch};
use taskqueue_core::stats::SeriesSelection;

use crate::answer::Created;
use crate::call::{Call, queue_path};
use crate::client::Client;
use crate::error::Error;

const AFTER_SETTINGS: &str = "repeat it: the same change has no second effect";
const AFTER_DELETION: &str = "list the queues: if it is gone, it was deleted";

impl Client {
    /// Makes sure that a queue exists.
    pub async fn create_queue(&self, queue: &QueueName) -> Result<Created<Queue>, Error> {
        self.perform(Call::creation(queue_path(paths::QUEUE, queue)), |answer| answer.created(Queue::read)).await
    }

    /// All queues, sorted by name.
    pub async fn queues(&self) -> Result<Vec<Queue>, Error> {
        self.ask(Call::read(paths::QUEUES.to_owned()), Queue::read_all).await
    }

    /// The settings of a queue. Only for servers with
    /// [`QUEUE_SETTINGS`](taskqueue_api::capabilities::QUEUE_SETTINGS).
    pub async fn queue_settings(&self, queue: &QueueName) -> Result<QueueSettings, Error> {
        self.ask(Call::read(queue_path(paths::SETTINGS, queue)), read_settings).await
    }

    /// Changes settings of a queue; gives all of them. A patch that removes the limits of all routes cannot set new ones: that
    /// takes a second call. Only for servers with [`QUEUE_SETTINGS`](taskqueue_api::capabilities::QUEUE_SETTINGS).
    pub async fn change_settings(&self, queue: &QueueName, patch: &SettingsPatch) -> Result<QueueSettings, Error> {
        let path = queue_path(paths::SETTINGS, queue);
        let call = Call::change("change the settings of the queue", Method::PATCH, path, AFTER_SETTINGS).body(patch);
        self.ask(call, read_settings).await
    }

    /// Deletes a queue that has no tasks.
    pub async fn delete_queue(&self, queue: &QueueName) -> Result<(), Error> {
        let path = queue_path(paths::QUEUE, queue);
        self.tell(Call::change("delete the queue", Method::DELETE, path, AFTER_DELETION)).await
    }

    /// Deletes a queue and all its tasks, unless one of them is running.
    pub async fn delete_queue_with_tasks(&self, queue: &QueueName) -> Result<(), Error> {
        let path = queue_path(paths::QUEUE, queue);
        let call = Call::change("delete the queue with its tasks", Method::DELETE, path, AFTER_DELETION);
        self.tell(call.query(vec![("cascade", "true".to_owned())])).await
    }
}

impl Client {
    /// Tasks, routes and workers of a queue now, and what happened lately.
    pub async fn queue_stats(&self, queue: &QueueName) -> Result<Stats, Error> {
        self.ask(Call::read(queue_path(paths::STATS, queue)), Stats::read).await
    }

    /// Reads what happened in each minute or hour.
    pub async fn activity_series(&self, queue: &QueueName, selection: SeriesSelection) -> Result<Series, Error> {
        let SeriesSelection { unit, from, to } = selection;
        let mut query = vec![("series", unit.as_str().to_owned())];
        query.extend(from.map(|from| ("from", from.to_string())));
        query.extend(to.map(|to| ("to", to.to_string())));
        let call = Call::read(queue_path(paths::STATS, queue)).query(query);
        self.ask(call, |value| Series::read_by(value, unit)).await
    }
}

impl Client {
    /// The health of the server. The call is sent once: a server that does not work is an answer, not a failed call.
    pub async fn health(&self) -> Result<Health, Error> {
        let call = Call { is_repeatable: false, ..Call::read(paths::HEALTH.to_owned()) };
        self.perform(call, |answer| answer.read(&[200, 503], Health::read)).await
    }

    /// Reads what the server offers beyond the contract. A server that does not know the question offers nothing.
    pub async fn capabilities(&self) -> Result<Capabilities, Error> {
        match self.ask(Call::read(paths::CAPABILITIES.to_owned()), Capabilities::read).await {
            Err(Error::Api { status: 404, .. }) => Ok(Capabilities::default()),
            answered => answered,
        }
    }

    /// The extensions of a server that has all of this version, as our own programs expect. To be asked before anything is changed.
    ///
    /// # Errors
    ///
    /// [`Error::ServerTooOld`] if the server lacks one, except [`OUTPUT`](taskqueue_api::capabilities::OUTPUT), which can be
    /// turned off.
    pub async fn require_extensions(&self) -> Result<Capabilities, Error> {
        let capabilities = self.capabilities().await?;
        capabilities.first_missing().map_or(Ok(capabilities), |missing| Err(Error::ServerTooOld { missing }))
    }
}
