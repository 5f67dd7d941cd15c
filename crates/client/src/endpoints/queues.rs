//! Queues.

use reqwest::Method;
use taskqueue_api::paths;
use taskqueue_api::queue::Queue;
use taskqueue_core::ids::QueueName;

use super::of_queue;
use crate::answer::{Answer, Created};
use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

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
