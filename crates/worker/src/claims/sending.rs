//! Sends one request for one or more claims. The first one waits until it is known that the server is one for this worker.

use std::time::Duration;

use taskqueue_client::{BatchClaimRequest, Claim, ClaimRequest, Error};

use super::Want;
use crate::context::WorkerContext;
use crate::waits::whole_seconds;

/// What was answered to each claim of a request.
pub(super) struct ClaimAnswers {
    pub(super) claims: Vec<Result<Option<Claim>, Error>>,
    pub(super) wait_applied: Option<u32>,
}

impl ClaimAnswers {
    /// Each of so many claims has failed with this error.
    fn failed(count: usize, error: Error) -> Self {
        Self { claims: vec![Err(error); count], wait_applied: None }
    }
}

impl WorkerContext {
    /// Claims for all of these, with one request that says who claims. One alone is sent as the contract has it.
    pub(super) async fn send_claims(&self, wants: &[Want], wait: Option<Duration>) -> ClaimAnswers {
        if let Err(error) = self.require_server().await {
            return ClaimAnswers::failed(wants.len(), error);
        }
        let wait = wait.map(whole_seconds).filter(|seconds| *seconds > 0);
        if let [want] = wants { self.send_claim(want, wait).await } else { self.send_batch_claim(wants, wait).await }
    }

    async fn send_claim(&self, want: &Want, wait: Option<u32>) -> ClaimAnswers {
        let request = ClaimRequest::new(self.settings.route.clone(), want.attempt.run_id);
        let request = request.by_worker(self.identity().in_claims(&want.slot));
        let request = wait.into_iter().fold(request, ClaimRequest::waiting);
        match self.client.claim(&self.settings.queue, &request).await {
            Ok(answer) => ClaimAnswers { claims: vec![Ok(answer.claim)], wait_applied: answer.wait_applied },
            Err(error) => ClaimAnswers::failed(1, error),
        }
    }

    async fn send_batch_claim(&self, wants: &[Want], wait: Option<u32>) -> ClaimAnswers {
        let run_ids = wants.iter().map(|want| want.attempt.run_id).collect();
        let request = BatchClaimRequest::new(self.settings.route.clone(), run_ids);
        let request = request.by_worker(self.identity().in_shared_claims());
        let request = request.by_each_worker(wants.iter().map(|want| want.slot.own()).collect());
        let request = wait.into_iter().fold(request, BatchClaimRequest::waiting);
        let answer = self.client.claim_tasks(&self.settings.queue, &request).await;
        ClaimAnswers { claims: answer.items, wait_applied: answer.wait_applied }
    }
}
