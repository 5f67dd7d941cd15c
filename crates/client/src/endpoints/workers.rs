//! Worker observations.

use reqwest::Method;
use taskqueue_api::counts::{Count, GroupPage};
use taskqueue_api::page::Page;
use taskqueue_api::paths;
use taskqueue_api::worker::{TelemetryRequest, read_observation};
use taskqueue_core::ids::{QueueName, WorkerId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::observation::{Observation, Report};

use super::of_queue;
use crate::answer::Answer;
use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::query::{GroupQuery, Selection, WorkerQuery, WorkerSelection};
use crate::walk::Walk;

// A late repetition of either would undo what came between: a report revives a worker that has withdrawn.
const AFTER_REPORT: &str = "report the present state: each report replaces the one before";
const AFTER_WITHDRAWAL: &str = "list the workers; an observation that is left expires by itself";

impl Client {
    /// One page of observations, ordered by id.
    pub async fn workers(&self, queue: &QueueName, query: &WorkerQuery) -> Result<Page<Observation>, Error> {
        let call = Call::read("list the workers", of_queue(paths::WORKERS, queue)).query(query.parameters());
        self.perform(call, |answer| answer.read(&[200], |page| Page::read(page, read_observation))).await
    }

    /// All pages of observations from this one on.
    pub fn walk_workers(&self, queue: &QueueName, query: WorkerQuery) -> Walk<WorkerQuery> {
        Walk::new(self, queue, query)
    }

    /// How many observations, approximately.
    pub async fn count_workers(&self, queue: &QueueName, selection: &WorkerSelection) -> Result<u64, Error> {
        let call = Call::read("count the workers", of_queue(paths::WORKER_COUNT, queue)).query(selection.parameters());
        self.perform(call, |answer| answer.read(&[200], Count::read)).await
    }

    /// How many observations, by group. A server that answers with a plain count is refused.
    pub async fn group_workers(
        &self,
        queue: &QueueName,
        query: &GroupQuery<WorkerSelection>,
    ) -> Result<GroupPage, Error> {
        let call = Call::read("count the workers by group", of_queue(paths::WORKER_COUNT, queue));
        self.perform(call.query(query.parameters()), |answer| {
            answer.read(&[200], |value| GroupPage::read(value, query.dimensions()))
        })
        .await
    }

    /// All pages of groups from this one on.
    pub fn walk_worker_groups(
        &self,
        queue: &QueueName,
        query: GroupQuery<WorkerSelection>,
    ) -> Walk<GroupQuery<WorkerSelection>> {
        Walk::new(self, queue, query)
    }

    /// Says what a worker does now; it counts for 300 seconds.
    pub async fn report_worker(&self, queue: &QueueName, id: WorkerId, report: &Report) -> Result<(), Error> {
        let call = Call::change("report the worker", Method::PUT, of_worker(queue, id), AFTER_REPORT);
        self.perform(call.body(report), Answer::no_content).await
    }

    /// Says what a worker measures, which replaces what it measured before. Only for a server that has
    /// [`TELEMETRY`](taskqueue_api::capabilities::TELEMETRY), and for a worker that has reported.
    pub async fn report_telemetry(&self, queue: &QueueName, id: WorkerId, telemetry: &JsonObject) -> Result<(), Error> {
        let path = of_queue(paths::TELEMETRY, queue).replace("{id}", id.as_str());
        let call = Call::change("report the telemetry", Method::POST, path, AFTER_REPORT);
        self.perform(call.body(&TelemetryRequest { telemetry: telemetry.clone() }), Answer::no_content).await
    }

    /// Forgets a worker. One that is not known counts as forgotten.
    pub async fn withdraw_worker(&self, queue: &QueueName, id: WorkerId) -> Result<(), Error> {
        let call = Call::change("withdraw the worker", Method::DELETE, of_worker(queue, id), AFTER_WITHDRAWAL);
        self.perform(call, Answer::no_content).await
    }
}

fn of_worker(queue: &QueueName, id: WorkerId) -> String {
    of_queue(paths::WORKER, queue).replace("{id}", id.as_str())
}
