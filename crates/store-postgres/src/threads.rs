//! The writers of a store, from their start to their end, and the queue they share.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use taskqueue_store::StoreError;
use taskqueue_store::command::{Answer, Command};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::writer::{Request, Requests, Writer};

/// Commands waiting for a writer; more are refused as busy.
const WAITING: usize = 4_096;
/// How long a command may wait for its turn (decisions.md section 4).
const PATIENCE: Duration = Duration::from_secs(5);

/// The running threads.
pub(crate) struct Threads {
    /// Nothing once finished.
    commands: RwLock<Option<mpsc::Sender<Request>>>,
    writers: Mutex<Vec<JoinHandle<()>>>,
}

impl Threads {
    /// Starts the writers.
    pub(crate) fn start(writers: Vec<Writer>) -> std::io::Result<Arc<Self>> {
        let (commands, requests) = mpsc::channel(WAITING);
        let requests: Requests = Arc::new(tokio::sync::Mutex::new(requests));
        let start = |writer: Writer| {
            let requests = Arc::clone(&requests);
            std::thread::Builder::new().name("writer".into()).spawn(move || writer.run(&requests))
        };
        let writers = writers.into_iter().map(start).collect::<std::io::Result<Vec<_>>>()?;
        Ok(Arc::new(Self { commands: RwLock::new(Some(commands)), writers: Mutex::new(writers) }))
    }

    /// Hands a command to the writers and waits for its answer.
    pub(crate) async fn write(&self, command: Command) -> Result<Answer, StoreError> {
        let patience = patience(&command);
        let (answer, answered) = oneshot::channel();
        self.send(Request::new(command, answer))?;
        match tokio::time::timeout(patience, answered).await {
            Ok(answer) => answer.unwrap_or(Err(StoreError::Unavailable)),
            Err(_) => Err(StoreError::Busy),
        }
    }

    fn send(&self, request: Request) -> Result<(), StoreError> {
        let commands = self.commands.read().unwrap_or_else(PoisonError::into_inner);
        let commands = commands.as_ref().ok_or(StoreError::Unavailable)?;
        commands.try_send(request).map_err(|error| match error {
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

/// A bulk update may run longer than it may wait; no request takes more than 30 seconds in all.
fn patience(command: &Command) -> Duration {
    match command {
        Command::UpdateTasks { .. } => PATIENCE * 5,
        _ => PATIENCE,
    }
}
