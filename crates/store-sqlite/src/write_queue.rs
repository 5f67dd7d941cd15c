//! The threads of a store: the readers and the writer, from their start to their end.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use taskqueue_store::StoreError;
use taskqueue_store::command::{Answer, BulkUpdate, Command};
use taskqueue_store::submission::hand_over;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::bulk::PlannedWrite;
use crate::readers::Readers;
use crate::request::Request;
use crate::writer::Writer;

/// Commands waiting for the writer; more are refused as busy. At some 30,000 commands a second this is a wait of a tenth
/// of a second.
const WAITING: usize = 4_096;

/// The running threads.
pub(crate) struct Threads {
    pub(crate) readers: Readers,
    /// Nothing once finished.
    commands: RwLock<Option<mpsc::Sender<Request>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Threads {
    /// Starts the writer beside the readers.
    pub(crate) fn start(readers: Readers, writer: Writer) -> std::io::Result<Arc<Self>> {
        let (commands, requests) = mpsc::channel(WAITING);
        let writer = std::thread::Builder::new().name("writer".into()).spawn(move || writer.run(requests))?;
        let (commands, writer) = (RwLock::new(Some(commands)), Mutex::new(Some(writer)));
        Ok(Arc::new(Self { readers, commands, writer }))
    }

    /// Hands a command to the writer and waits for its answer.
    pub(crate) async fn write(&self, command: Command) -> Result<Answer, StoreError> {
        let (handed, awaited) = hand_over();
        self.send(Request { command, plan: None, handed })?;
        awaited.outcome().await
    }

    /// Hands a planned bulk update to the writer and waits for its answer.
    pub(crate) async fn write_plan(&self, bulk: &Arc<BulkUpdate>, plan: PlannedWrite) -> Result<Answer, StoreError> {
        let (command, answer_by) = (Command::UpdateTasks(Arc::clone(bulk)), plan.limit.answer_by());
        let (handed, awaited) = hand_over();
        self.send(Request { command, plan: Some(plan), handed })?;
        awaited.outcome_by(answer_by).await
    }

    /// Whether the writer is there.
    pub(crate) fn takes_commands(&self) -> bool {
        let commands = self.commands.read().unwrap_or_else(PoisonError::into_inner);
        commands.as_ref().is_some_and(|commands| !commands.is_closed())
    }

    fn send(&self, request: Request) -> Result<(), StoreError> {
        let commands = self.commands.read().unwrap_or_else(PoisonError::into_inner);
        let commands = commands.as_ref().ok_or(StoreError::Unavailable)?;
        commands.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Busy,
            TrySendError::Closed(_) => StoreError::Unavailable,
        })
    }

    /// Takes no more reads and commands, cuts long reads off and waits for the commands under way. The writer is the
    /// last one to let go of the file, so that its log is gone when it ends.
    pub(crate) fn finish(&self) {
        self.readers.close();
        drop(self.commands.write().unwrap_or_else(PoisonError::into_inner).take());
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if writer.is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the writer ended by a panic");
        }
    }
}

#[cfg(test)]
#[path = "write_queue_tests.rs"]
mod tests;
