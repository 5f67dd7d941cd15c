//! One slot: claim, run, report, again. While something runs or is being reported its lease is kept.

use std::sync::Arc;
use std::time::Duration;

use taskqueue_client::{Error, Failure, WorkerId};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::claims::Claimed;
use crate::context::WorkerContext;
use crate::events::{Ending, Event};
use crate::handler::{Handler, Outcome, Run};
use crate::intervals::Backoff;
use crate::lease::Lease;
use crate::observer::Observer;
use crate::report::{Delivery, Report, RunOf};
use crate::stop::{Order, Stop, reached};

/// How long a handler may take beyond the grace that it was given, until it is dropped: time to kill and to bury.
const BEYOND_GRACE: Duration = Duration::from_secs(30);

pub(crate) struct Slot {
    pub(crate) number: usize,
    pub(crate) worker_id: WorkerId,
    pub(crate) shared: Arc<WorkerContext>,
    pub(crate) handler: Arc<dyn Handler>,
}

impl Slot {
    /// Works until there is nothing more to claim.
    pub(crate) async fn work(self) {
        let observer = Observer::start(Arc::clone(&self.shared), self.worker_id);
        let mut given_back = Backoff::new(self.shared.settings.pace.pauses);
        while let Some(claimed) = self.shared.next_claim().await {
            observer.now(Some(claimed.claim.task.id));
            let ending = self.run(claimed).await;
            observer.now(None);
            if matches!(ending, Ending::Released | Ending::Unable(_)) {
                // It is pending again, and would be claimed again at once.
                self.pause(given_back.next()).await;
            } else {
                given_back.reset();
            }
        }
        observer.close(&self.shared).await;
    }

    async fn pause(&self, pause: Duration) {
        let mut stop = self.shared.stop.subscribe();
        tokio::select! {
            biased;
            _ = reached(&mut stop, Stop::Finish) => {}
            () = sleep(pause) => {}
        }
    }

    /// One run, from its claim to the answer to its report.
    async fn run(&self, claimed: Claimed) -> Ending {
        let Claimed { claim, since } = claimed;
        let WorkerContext { client, contact, listener, settings, .. } = &*self.shared;
        let run = RunOf { queue: settings.queue.clone(), task_id: claim.task.id, run_id: claim.run_id };
        // Not since the claim was sent, which may have waited for its task for most of a minute.
        let begun = Instant::now();
        listener.hear(&Event::Started { slot: self.number, claim: &claim });
        let (orders, told) = watch::channel(Order::Run);
        let (handler, slot, worker_id) = (Arc::clone(&self.handler), self.number, self.worker_id);
        let work = tokio::spawn(async move { handler.run(Run { slot, worker_id, claim, orders: told }).await });
        let lease = Lease { client, contact, listener: &**listener, pace: &settings.pace, run: &run, slot };
        let mut lease = std::pin::pin!(lease.keep(since));
        let ending = match self.attend(work, &orders, lease.as_mut()).await {
            Attended::Revoked(error) => Ending::Revoked(error.to_string()),
            Attended::Ended(outcome) => tokio::select! {
                biased;
                ending = self.report(&run, outcome) => ending,
                // What the server says to a heartbeat now it will also say to the report.
                _ = async { lease.await; std::future::pending::<()>().await } => Ending::Undelivered,
            },
        };
        self.shared.ended(&ending);
        let (task_id, run_id, took) = (run.task_id, run.run_id, begun.elapsed());
        listener.hear(&Event::Ended { slot, task_id, run_id, ending: &ending, took });
        ending
    }

    /// Waits for the end of a run, and passes on to it what the server and the worker want.
    async fn attend(
        &self,
        mut work: JoinHandle<Outcome>,
        orders: &watch::Sender<Order>,
        mut lease: std::pin::Pin<&mut impl Future<Output = Error>>,
    ) -> Attended {
        let mut stop = self.shared.stop.subscribe();
        let (mut revoked, mut ordered) = (None, Order::Run);
        let mut last_moment = None;
        let outcome = loop {
            let further = if ordered == Order::Run { Stop::Release } else { Stop::Kill };
            tokio::select! {
                biased;
                ended = &mut work => break ended.unwrap_or_else(|error| broken(&error.to_string())),
                error = &mut lease, if revoked.is_none() => {
                    revoked = Some(error);
                    ordered = ordered.max(Order::Stop);
                }
                wanted = reached(&mut stop, further), if ordered < Order::Kill => {
                    ordered = if wanted == Stop::Kill { Order::Kill } else { Order::Stop };
                }
                () = until(last_moment) => {
                    work.abort();
                    break Outcome::Stopped;
                }
            }
            orders.send_replace(ordered);
            last_moment.get_or_insert_with(|| Instant::now() + self.shared.settings.grace + BEYOND_GRACE);
        };
        match revoked {
            Some(error) => Attended::Revoked(error),
            None => Attended::Ended(outcome),
        }
    }

    async fn report(&self, run: &RunOf, outcome: Outcome) -> Ending {
        let (report, unable) = match outcome {
            Outcome::Complete(result) => (Report::Complete(result), None),
            Outcome::Fail(failure) => (Report::Fail(failure), None),
            Outcome::Release | Outcome::Stopped => (Report::Unclaim, None),
            Outcome::Unable(why) => (Report::Unclaim, Some(why)),
        };
        let mut stop = self.shared.stop.subscribe();
        match self.shared.reporter().deliver(run, report, &mut stop).await {
            Delivery::Taken(Report::Complete(_)) => Ending::Succeeded,
            Delivery::Taken(Report::Fail(Failure { kind, message, .. })) => Ending::Failed { kind, message },
            Delivery::Taken(Report::Unclaim) => unable.map_or(Ending::Released, Ending::Unable),
            Delivery::Refused(error) => Ending::Revoked(error.to_string()),
            Delivery::Left => Ending::Undelivered,
        }
    }
}

enum Attended {
    /// The run is over as far as the server is concerned; nothing of it is reported.
    Revoked(Error),
    /// It ended here.
    Ended(Outcome),
}

/// A handler that panicked, which is a failure of the run like any other.
fn broken(message: &str) -> Outcome {
    Outcome::Fail(Failure { kind: "HandlerPanicked".into(), message: message.into(), traceback: None })
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
