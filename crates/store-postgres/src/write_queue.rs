//! The writers of a store, from their start to their end, and the queue they share.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use taskqueue_store::StoreError;
use taskqueue_store::command::{Answer, BulkUpdate, Command};
use taskqueue_store::submission::hand_over;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::bulk::PlannedWrite;
use crate::request::Request;
use crate::writer::{Requests, Writer};

/// Commands waiting for a writer; more are refused as busy.
const WAITING: usize = 4_096;

/// The running threads.
pub(crate) struct Threads {
    /// Nothing once finished.
    commands: RwLock<Option<Queues>>,
    writers: Mutex<Vec<JoinHandle<()>>>,
}

/// Where commands wait.
struct Queues {
    ordinary: mpsc::Sender<Request>,
    /// For those that can be long: they have a writer of their own, one at a time, and no other command waits for it.
    long: mpsc::Sender<Request>,
}

impl Threads {
    /// Starts the writers: those that share the ordinary commands, and the one for long ones.
    pub(crate) fn start(writers: Vec<Writer>, long_writer: Writer) -> std::io::Result<Arc<Self>> {
        let (ordinary, requests) = mpsc::channel(WAITING);
        let (long, long_requests) = mpsc::channel(WAITING);
        let shared = |requests| -> Requests { Arc::new(tokio::sync::Mutex::new(requests)) };
        let start = |writer: Writer, name: &str, requests: &Requests| {
            let requests = Arc::clone(requests);
            std::thread::Builder::new().name(name.into()).spawn(move || writer.run(&requests))
        };
        let (requests, long_requests) = (shared(requests), shared(long_requests));
        let writers = writers.into_iter().map(|writer| start(writer, "writer", &requests));
        let mut threads = writers.collect::<std::io::Result<Vec<_>>>()?;
        threads.push(start(long_writer, "long-writer", &long_requests)?);
        Ok(Arc::new(Self { commands: RwLock::new(Some(Queues { ordinary, long })), writers: Mutex::new(threads) }))
    }

    /// Hands a planned bulk update to its writer and waits for its answer.
    pub(crate) async fn write_plan(&self, bulk: &Arc<BulkUpdate>, plan: PlannedWrite) -> Result<Answer, StoreError> {
        let (command, answer_by) = (Command::UpdateTasks(Arc::clone(bulk)), plan.limit.answer_by());
        let (handed, awaited) = hand_over();
        self.send(Request::new(command, handed).with_plan(plan))?;
        awaited.outcome_by(answer_by).await
    }

    /// Hands a command to the writers and waits for its answer.
    pub(crate) async fn write(&self, command: Command) -> Result<Answer, StoreError> {
        let (handed, awaited) = hand_over();
        self.send(Request::new(command, handed))?;
        awaited.outcome().await
    }

    fn send(&self, request: Request) -> Result<(), StoreError> {
        let commands = self.commands.read().unwrap_or_else(PoisonError::into_inner);
        let commands = commands.as_ref().ok_or(StoreError::Unavailable)?;
        let queue = if request.is_long() { &commands.long } else { &commands.ordinary };
        queue.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Busy,
            TrySendError::Closed(_) => StoreError::Unavailable,
        })
    }

    /// Takes no more commands.
    pub(crate) fn stop(&self) {
        drop(self.commands.write().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Takes no more commands and waits for those under way.
    pub(crate) fn finish(&self) {
        self.stop();
        for writer in std::mem::take(&mut *self.writers.lock().unwrap_or_else(PoisonError::into_inner)) {
            if writer.join().is_err() {
                tracing::error!("a writer ended by a panic");
            }
        }
    }
}
