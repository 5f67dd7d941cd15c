//! What happens to claims when the worker stops: what it got or may have got is given back, so that nobody has to wait for the end of
//! a lease.

use std::sync::Arc;
use std::time::Duration;

use taskqueue_client::Claim;
use tokio::time::timeout;

use super::Want;
use super::sending::ClaimAnswers;
use crate::context::WorkerContext;
use crate::report::{FinalReport, RunKey};
use crate::stop::{StopMode, stop_reached};

/// How long the calls may take that give back the task of an interrupted claim. After that, its lease expires.
const GIVE_BACK_TIMEOUT: Duration = Duration::from_secs(5);

impl WorkerContext {
    /// Answers these slots that there is nothing more for them, after what their claims may have taken was given back. If a claim
    /// took nothing and a task has become pending since, that task is claimed and given back, which does no harm.
    pub(super) async fn release(self: Arc<Self>, wants: Vec<Want>) {
        let (in_doubt, settled): (Vec<Want>, Vec<Want>) = wants.into_iter().partition(|want| want.attempt.in_doubt);
        settled.into_iter().for_each(|want| self.answer(want, None));
        let is_together = self.features.known().batch && in_doubt.iter().all(Want::may_be_sent_together);
        if in_doubt.len() > 1 && is_together {
            self.release_together(in_doubt).await;
        } else {
            // At the same time.
            for want in in_doubt {
                tokio::spawn(Arc::clone(&self).release_together(vec![want]));
            }
        }
    }

    async fn release_together(self: Arc<Self>, in_doubt: Vec<Want>) {
        let mut stop = self.stop.subscribe();
        let repeated = tokio::select! {
            biased;
            repeated = timeout(GIVE_BACK_TIMEOUT, self.send_claims(&in_doubt, None)) => repeated.ok(),
            _ = stop_reached(&mut stop, StopMode::Kill) => None,
        };
        let claims = repeated.map_or_else(Vec::new, |ClaimAnswers { claims, .. }| claims);
        let claims = claims.into_iter().map(|claim| claim.ok().flatten()).chain(std::iter::repeat(None));
        for (want, claim) in in_doubt.into_iter().zip(claims) {
            match claim {
                // At the same time, so that they are reported together.
                Some(claim) => drop(tokio::spawn(Arc::clone(&self).give_back(want, claim))),
                None => self.answer(want, None),
            }
        }
    }

    pub(super) async fn unclaim(&self, claim: &Claim) {
        let run = RunKey::new(&self.settings.queue, claim);
        drop(timeout(GIVE_BACK_TIMEOUT, self.deliver(&run, FinalReport::Unclaim)).await);
    }
}
