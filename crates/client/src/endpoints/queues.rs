//! Queues.

use reqwest::Method;
use taskqueue_api::paths;
use taskqueue_api::queue::Queue;
use taskqueue_api::settings::read_settings;
use taskqueue_core::ids::QueueName;
use taskqueue_core::settings::{QueueSettings, SettingsPatch};

use super::of_queue;
use crate::answer::{Answer, Created};
use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

const AFTER_SETTINGS: &str = "repeat it: the same change has no second effect";
const AFTER_DELETION: &str = "list the queues: if it is gone, it was deleted";

impl Client {
    /// Makes sure that a queue exists.
    pub async fn create_queue(&self, queue: &QueueName) -> Result<Created<Queue>, Error> {
        let call = Call::creation("create the queue", of_queue(paths::QUEUE, queue));
        self.perform(call, |answer| {
            let value = answer.read(&[200, 201], Queue::read)?;
            Ok(Created { value, created: answer.status == 201 })
        })
        .await
    }

    /// All queues, sorted by name.
    pub async fn queues(&self) -> Result<Vec<Queue>, Error> {
        let call = Call::read("list the queues", paths::QUEUES.to_owned());
        self.perform(call, |answer| answer.read(&[200], Queue::read_all)).await
    }

    /// The settings of a queue. Only for servers with
    /// [`QUEUE_SETTINGS`](taskqueue_api::capabilities::QUEUE_SETTINGS).
    pub async fn queue_settings(&self, queue: &QueueName) -> Result<QueueSettings, Error> {
        let call = Call::read("get the settings of the queue", of_queue(paths::SETTINGS, queue));
        self.perform(call, |answer| answer.read(&[200], read_settings)).await
    }

    /// Changes settings of a queue; gives all of them. A patch that removes the limits of all routes cannot set new ones: that
    /// takes a second call. Only for servers with [`QUEUE_SETTINGS`](taskqueue_api::capabilities::QUEUE_SETTINGS).
    pub async fn change_settings(&self, queue: &QueueName, patch: &SettingsPatch) -> Result<QueueSettings, Error> {
        let path = of_queue(paths::SETTINGS, queue);
        let call = Call::change("change the settings of the queue", Method::PATCH, path, AFTER_SETTINGS).body(patch);
        self.perform(call, |answer| answer.read(&[200], read_settings)).await
    }

    /// Deletes a queue that has no tasks.
    pub async fn delete_queue(&self, queue: &QueueName) -> Result<(), Error> {
        let path = of_queue(paths::QUEUE, queue);
        let call = Call::change("delete the queue", Method::DELETE, path, AFTER_DELETION);
        self.perform(call, Answer::no_content).await
    }

    /// Deletes a queue and all its tasks, unless one of them is running.
    pub async fn delete_queue_with_tasks(&self, queue: &QueueName) -> Result<(), Error> {
        let path = of_queue(paths::QUEUE, queue);
        let call = Call::change("delete the queue with its tasks", Method::DELETE, path, AFTER_DELETION);
        let call = call.query(vec![("cascade", "true".to_owned())]);
        self.perform(call, Answer::no_content).await
    }
}
