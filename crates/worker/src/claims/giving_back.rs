//! What happens to claims when the worker stops: what it got or may have got is given back, so that nobody has to wait for the end of
//! a lease.

use std::sync::Arc;
use std::time::Duration;

use taskqueue_client::Claim;
use tokio::time::timeout;

use super::Want;
use super::sending::ClaimAnswers;
use crate::context::WorkerContext;
use crate::error_class::ErrorClass;
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
        let is_together = in_doubt.iter().all(Want::may_be_sent_together);
        let alone = if in_doubt.len() > 1 && is_together { self.release_claims(in_doubt).await } else { in_doubt };
        // At the same time.
        for want in alone {
            let context = Arc::clone(&self);
            tokio::spawn(async move { drop(context.release_claims(vec![want]).await) });
        }
    }

    /// Repeats these claims once, with one request. Returns those that are to be repeated alone: a batch was answered, and did not
    /// settle them.
    async fn release_claims(self: &Arc<Self>, in_doubt: Vec<Want>) -> Vec<Want> {
        let mut stop = self.stop.subscribe();
        let repeated = tokio::select! {
            biased;
            repeated = timeout(GIVE_BACK_TIMEOUT, self.send_claims(&in_doubt, None)) => repeated.ok(),
            _ = stop_reached(&mut stop, StopMode::Kill) => None,
        };
        let Some(ClaimAnswers { claims, .. }) = repeated else {
            in_doubt.into_iter().for_each(|want| self.answer(want, None));
            return Vec::new();
        };
        let (is_together, mut alone) = (in_doubt.len() > 1, Vec::new());
        for (want, claim) in in_doubt.into_iter().zip(claims) {
            match claim {
                // At the same time, so that they are reported together.
                Ok(Some(claim)) => drop(tokio::spawn(Arc::clone(self).give_back(want, claim))),
                Ok(None) if !want.believes_none(is_together) => alone.push(want),
                Err(error) if is_together && ErrorClass::of(&error) != ErrorClass::RunOver => alone.push(want),
                _ => self.answer(want, None),
            }
        }
        alone
    }

    pub(super) async fn unclaim(&self, claim: &Claim) {
        let run = RunKey::new(&self.settings.queue, claim);
        drop(timeout(GIVE_BACK_TIMEOUT, self.deliver(&run, FinalReport::Unclaim, None)).await);
    }
}
