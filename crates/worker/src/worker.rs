//! The worker as a whole: its slots side by side, what an earlier worker left to be delivered, and the way to its end.

use std::io;
use std::sync::Arc;

use taskqueue_client::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::context::{Counts, End, WorkerContext};
use crate::events::{Event, Listener};
use crate::handler::Handler;
use crate::ids;
use crate::intervals::Backoff;
use crate::report::{self, Next, Report, RunOf};
use crate::settings::Settings;
use crate::slot::Slot;
use crate::spool::Spool;
use crate::stop::Stop;

/// Claims and runs tasks until there is a reason to end.
pub struct Worker {
    shared: Arc<WorkerContext>,
    handler: Arc<dyn Handler>,
}

impl Worker {
    /// A worker that has not begun. `client` should repeat nothing by itself ([`taskqueue_client::Retries::NONE`]): the
    /// worker knows better what to repeat when.
    pub fn new(
        client: Client,
        settings: Settings,
        handler: Arc<dyn Handler>,
        listener: Arc<dyn Listener>,
    ) -> io::Result<Self> {
        let spool = match &settings.spool {
            Some(place) => Spool::open(&place.run_dir, &place.url)?,
            None => Spool::none(),
        };
        Ok(Self { shared: Arc::new(WorkerContext::new(client, settings, spool, listener)), handler })
    }

    /// Works to the end; `stops` tells it how to stop. Gives why it ended, and what it did.
    pub async fn run(self, mut stops: watch::Receiver<Stop>) -> (End, Counts) {
        let mut slots = JoinSet::new();
        // Looked up before any slot can leave something there.
        let left_over = self.shared.spool.left_over(&*self.shared.listener);
        let mut left_over = tokio::spawn(deliver(Arc::clone(&self.shared), left_over));
        for number in 0..self.shared.settings.slots {
            match ids::worker_id() {
                Ok(worker_id) => {
                    let (shared, handler) = (Arc::clone(&self.shared), Arc::clone(&self.handler));
                    slots.spawn(Slot { number, worker_id, shared, handler }.work());
                }
                Err(error) => self.shared.end(End::Broken(error.to_string())),
            }
        }
        let mut is_told = true;
        while !slots.is_empty() {
            tokio::select! {
                biased;
                told = stops.changed(), if is_told => match told {
                    Ok(()) => {
                        let wanted = *stops.borrow_and_update();
                        self.shared.stop_at_least(wanted);
                    }
                    // Nobody can tell it any more; it ends by itself or never.
                    Err(_) => is_told = false,
                },
                ended = slots.join_next() => {
                    if let Some(Err(error)) = ended {
                        self.shared.end(End::Broken(error.to_string()));
                    }
                }
            }
        }
        // A worker that had nothing else to do should not leave before it has done this, if the server answers.
        if timeout(self.shared.settings.pace.farewell, &mut left_over).await.is_err() {
            left_over.abort();
        }
        self.shared.summary()
    }
}

/// Delivers what an earlier worker could not, until nothing is left of it.
async fn deliver(shared: Arc<WorkerContext>, mut waiting: Vec<(RunOf, Report)>) {
    let mut backoff = Backoff::new(shared.settings.pace.pauses);
    while !waiting.is_empty() {
        let mut still = Vec::new();
        for (run, kept) in waiting {
            let Err(error) = report::send(&shared.client, &run, &kept).await else {
                shared.spool.forget(&run).await;
                shared.listener.hear(&Event::LeftOver { task_id: run.task_id, refused: None });
                continue;
            };
            match report::instead(kept, error) {
                Next::Again(kept, error) => {
                    shared.contact.lost(&*shared.listener, &error);
                    still.push((run, kept));
                }
                Next::Other(other) => still.push((run, other)),
                Next::Over(error) => {
                    shared.spool.forget(&run).await;
                    let refused = error.to_string();
                    shared.listener.hear(&Event::LeftOver { task_id: run.task_id, refused: Some(&refused) });
                }
            }
        }
        waiting = still;
        if !waiting.is_empty() {
            sleep(backoff.next()).await;
        }
    }
}
