//! Sends one request for one or more claims, in the form that the server takes.

use std::time::Duration;

use taskqueue_client::{BatchClaimRequest, Claim, ClaimAnswer, ClaimRequest, Error, RunId};

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
        let signed = self.server_features().await.run_info.then(|| {
            let slots: Vec<SlotIdentity> = wants.iter().map(|want| want.slot).collect();
            request.clone().by_worker(SlotIdentity::all_in_claims(&slots, self.run_dir()))
        });
        let mut answer = self.client.claim_tasks(&self.settings.queue, signed.as_ref().unwrap_or(&request)).await;
        if signed.is_some() && matches!(answer.request_error, Some(Error::Api { status: 422, .. })) {
            self.features.has_no_run_info();
            answer = self.client.claim_tasks(&self.settings.queue, &request).await;
        }
        let is_no_batch = answer.request_error.as_ref().is_some_and(Error::is_no_batch);
        if is_no_batch {
            self.features.has_no_batch();
        }
        ClaimAnswers { claims: answer.items, wait_applied: answer.wait_applied, is_no_batch }
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
        let signed = request.clone().by_worker(slot.in_claims(self.run_dir()));
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
