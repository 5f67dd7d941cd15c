//! Sends one request for one or more claims, in the form that the server takes.

use std::time::Duration;

use taskqueue_client::{BatchAnswer, BatchClaimRequest, Claim, ClaimAnswer, ClaimRequest, Error, RunId};

use super::Want;
use crate::context::WorkerContext;
use crate::identity::SlotIdentity;
use crate::waits::whole_seconds;

/// What was answered to each claim of a request.
pub(super) struct ClaimAnswers {
    pub(super) claims: Vec<Result<Option<Claim>, Error>>,
    pub(super) wait_applied: Option<u32>,
    /// The server does not take several claims in one request. Nothing was done.
    pub(super) is_no_batch: bool,
}

impl WorkerContext {
    /// Claims for all of these, with one request. One alone is sent as the contract has it.
    pub(super) async fn send_claims(&self, wants: &[Want], wait: Option<Duration>) -> ClaimAnswers {
        let wait = wait.map(whole_seconds).filter(|seconds| *seconds > 0);
        if let [want] = wants {
            let (claim, wait_applied) = match self.send_claim(&want.slot, want.attempt.run_id, wait).await {
                Ok(ClaimAnswer { claim, wait_applied }) => (Ok(claim), wait_applied),
                Err(error) => (Err(error), None),
            };
            return ClaimAnswers { claims: vec![claim], wait_applied, is_no_batch: false };
        }
        let run_ids = wants.iter().map(|want| want.attempt.run_id).collect();
        let request = BatchClaimRequest::new(self.settings.route.clone(), run_ids);
        let request = match wait {
            Some(seconds) => request.waiting(seconds),
            None => request,
        };
        let answer = self.send_signed(wants, request).await;
        let is_no_batch = answer.request_error.as_ref().is_some_and(Error::is_no_batch);
        if is_no_batch {
            self.features.has_no_batch();
        }
        ClaimAnswers { claims: answer.items, wait_applied: answer.wait_applied, is_no_batch }
    }

    /// Sends a claim of several slots that says who claims: for each of them, for all together, or not at all, whichever the server
    /// takes.
    async fn send_signed(&self, wants: &[Want], request: BatchClaimRequest) -> BatchAnswer<Option<Claim>> {
        let (queue, identity) = (&self.settings.queue, self.identity());
        // Nothing was done. Another server than the one that was asked, or an older one in its place.
        let is_refused = |answer: &BatchAnswer<_>| matches!(answer.request_error, Some(Error::Api { status: 422, .. }));
        let features = self.server_features().await;
        if features.run_info && features.slots_of_claims {
            let signed = request.clone().by_worker(identity.in_shared_claims());
            let signed = signed.by_each_worker(wants.iter().map(|want| want.slot.own()).collect());
            let answer = self.client.claim_tasks(queue, &signed).await;
            if !is_refused(&answer) {
                return answer;
            }
            self.features.has_no_slots_of_claims();
        }
        if features.run_info {
            let slots: Vec<SlotIdentity> = wants.iter().map(|want| want.slot).collect();
            let answer = self.client.claim_tasks(queue, &request.clone().by_worker(identity.of_all(&slots))).await;
            if !is_refused(&answer) {
                return answer;
            }
            self.features.has_no_run_info();
        }
        self.client.claim_tasks(queue, &request).await
    }

    /// Sends a claim that says who claims, if the server takes that.
    async fn send_claim(&self, slot: &SlotIdentity, run_id: RunId, wait: Option<u32>) -> Result<ClaimAnswer, Error> {
        let request = ClaimRequest::new(self.settings.route.clone(), run_id);
        let request = match wait {
            Some(seconds) => request.waiting(seconds),
            None => request,
        };
        if !self.server_features().await.run_info {
            return self.client.claim(&self.settings.queue, &request).await;
        }
        let signed = request.clone().by_worker(self.identity().in_claims(slot));
        match self.client.claim(&self.settings.queue, &signed).await {
            // Nothing was done. Another server than the one that was asked, or an older one in its place.
            Err(Error::Api { status: 422, .. }) => {
                self.features.has_no_run_info();
                self.client.claim(&self.settings.queue, &request).await
            }
            answer => answer,
        }
    }
}
