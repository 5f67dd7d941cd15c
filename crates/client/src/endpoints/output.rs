//! What runs print. Only for a server that has [`OUTPUT`](taskqueue_api::capabilities::OUTPUT).

use std::sync::Arc;

use reqwest::Method;
use taskqueue_api::output::{Output, OutputRequest};
use taskqueue_api::paths;
use taskqueue_core::ids::{QueueName, RunId, TaskId};

use super::of_task;
use crate::answer::Answer;
use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

const AFTER_OUTPUT: &str = "send it again with the same offset: what is there already stays as it is";

/// What reading output gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputAnswer {
    pub output: Output,
    /// The wait in seconds that the server agreed to; nothing if it did not, or was cut short. Then, if there is no text,
    /// pause before the next request.
    pub wait_applied: Option<u32>,
}

impl Client {
    /// Sends what a run printed behind `offset` bytes, at most 64 KiB. Sending it again is safe, and left to the caller.
    pub async fn add_output(
        &self,
        queue: &QueueName,
        id: TaskId,
        run_id: RunId,
        offset: u64,
        text: Arc<str>,
    ) -> Result<(), Error> {
        let call = Call::change("send the output", Method::POST, of_task(paths::OUTPUT, queue, id), AFTER_OUTPUT);
        self.perform(call.body(&OutputRequest { run_id, offset, text }), Answer::no_content).await
    }

    /// What is kept of the output of a task from `offset` on. With `wait_seconds` the server is asked to wait until there is
    /// something behind the offset or the run is over.
    pub async fn output(
        &self,
        queue: &QueueName,
        id: TaskId,
        offset: u64,
        wait_seconds: Option<u32>,
    ) -> Result<OutputAnswer, Error> {
        let call = Call::read("read the output", of_task(paths::OUTPUT, queue, id));
        let call = Call { wait_seconds, ..call.query(vec![("offset", offset.to_string())]) };
        self.perform(call, |answer| {
            let output = answer.read(&[200], Output::read)?;
            Ok(OutputAnswer { output, wait_applied: answer.wait_applied })
        })
        .await
    }
}
