//! Commands of every kind in one type, and their answers in another, for tests that mix them.

use std::fmt::Debug;
use std::sync::Arc;

use taskqueue_core::settings::QueueSettings;
use taskqueue_core::task::Task;
use taskqueue_core::time::Timestamp;

use crate::command::{
    ActOnTask, ActOnTasks, Acted, AddOutput, BulkUpdate, ChangeSettings, Claim, ClaimTasks, Claimed, ClaimedItems,
    Command, CreateQueue, CreateTask, CreateTasks, CreatedTask, DeleteQueue, DeleteTask, Heartbeat, Items,
    ReportProgress, ReportRun, ReportRuns, ReportTelemetry, ReportWorker, Scan, Scanned, UpdateTask, Updated, Upkeep,
    WithdrawWorker,
};
use crate::{Store, StoreError, StoreExt};

/// Everything that tests write.
pub trait Write: Clone + Debug + Send + 'static {
    type Answer: Clone + Debug + PartialEq + Send + 'static;

    fn write_to(self, store: &dyn Store) -> impl Future<Output = Result<Self::Answer, StoreError>> + Send;
}

impl<C: Command<Answer: Clone + Debug + PartialEq + 'static> + Clone + Debug + 'static> Write for C {
    type Answer = C::Answer;

    async fn write_to(self, store: &dyn Store) -> Result<C::Answer, StoreError> {
        store.write(self).await
    }
}

impl Write for BulkUpdate {
    type Answer = Updated;

    async fn write_to(self, store: &dyn Store) -> Result<Updated, StoreError> {
        store.update_tasks(Arc::new(self)).await
    }
}

impl Write for ActOnTasks {
    type Answer = Acted;

    async fn write_to(self, store: &dyn Store) -> Result<Acted, StoreError> {
        store.act_on_tasks(Arc::new(self)).await
    }
}

/// A command of any kind.
#[derive(Clone, Debug)]
pub enum AnyCommand {
    CreateQueue(CreateQueue),
    DeleteQueue(DeleteQueue),
    CreateTask(CreateTask),
    CreateTasks(CreateTasks),
    UpdateTask(UpdateTask),
    UpdateTasks(Arc<BulkUpdate>),
    ActOnTask(ActOnTask),
    ActOnTasks(Arc<ActOnTasks>),
    DeleteTask(DeleteTask),
    Claim(Claim),
    ClaimTasks(ClaimTasks),
    Heartbeat(Heartbeat),
    ReportProgress(ReportProgress),
    AddOutput(AddOutput),
    ReportRun(ReportRun),
    ReportRuns(ReportRuns),
    ReportWorker(ReportWorker),
    ReportTelemetry(ReportTelemetry),
    WithdrawWorker(WithdrawWorker),
    ChangeSettings(ChangeSettings),
    Upkeep(Upkeep),
    Scan(Scan),
}

/// An answer of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyAnswer {
    Done,
    QueueCreated(bool),
    Created(CreatedTask),
    Task(Box<Task>),
    Updated(Updated),
    Acted(Acted),
    Claimed(Option<Box<Claimed>>),
    Lease(Timestamp),
    CreatedItems(Items<bool>),
    ClaimedItems(ClaimedItems),
    ReportedItems(Items<Option<Timestamp>>),
    Settings(QueueSettings),
    Scanned(Scanned),
}

impl Write for AnyCommand {
    type Answer = AnyAnswer;

    async fn write_to(self, store: &dyn Store) -> Result<AnyAnswer, StoreError> {
        let done = |()| AnyAnswer::Done;
        match self {
            Self::CreateQueue(command) => store.write(command).await.map(AnyAnswer::QueueCreated),
            Self::DeleteQueue(command) => store.write(command).await.map(done),
            Self::CreateTask(command) => store.write(command).await.map(AnyAnswer::Created),
            Self::CreateTasks(command) => store.write(command).await.map(AnyAnswer::CreatedItems),
            Self::UpdateTask(command) => store.write(command).await.map(AnyAnswer::Task),
            Self::UpdateTasks(bulk) => store.update_tasks(bulk).await.map(AnyAnswer::Updated),
            Self::ActOnTask(command) => store.write(command).await.map(AnyAnswer::Task),
            Self::ActOnTasks(act) => store.act_on_tasks(act).await.map(AnyAnswer::Acted),
            Self::DeleteTask(command) => store.write(command).await.map(done),
            Self::Claim(command) => store.write(command).await.map(AnyAnswer::Claimed),
            Self::ClaimTasks(command) => store.write(command).await.map(AnyAnswer::ClaimedItems),
            Self::Heartbeat(command) => store.write(command).await.map(AnyAnswer::Lease),
            Self::ReportProgress(command) => store.write(command).await.map(done),
            Self::AddOutput(command) => store.write(command).await.map(done),
            Self::ReportRun(command) => store.write(command).await.map(done),
            Self::ReportRuns(command) => store.write(command).await.map(AnyAnswer::ReportedItems),
            Self::ReportWorker(command) => store.write(command).await.map(done),
            Self::ReportTelemetry(command) => store.write(command).await.map(done),
            Self::WithdrawWorker(command) => store.write(command).await.map(done),
            Self::ChangeSettings(command) => store.write(command).await.map(AnyAnswer::Settings),
            // How much of it is done at a time is up to the store.
            Self::Upkeep(_) => upkeep(store).await.map(|()| AnyAnswer::Done),
            Self::Scan(command) => store.write(command).await.map(AnyAnswer::Scanned),
        }
    }
}

/// Everything that is due.
pub async fn upkeep(store: &dyn Store) -> Result<(), StoreError> {
    while store.write(Upkeep).await?.more {}
    Ok(())
}

impl From<BulkUpdate> for AnyCommand {
    fn from(bulk: BulkUpdate) -> Self {
        Self::UpdateTasks(Arc::new(bulk))
    }
}

impl From<ActOnTasks> for AnyCommand {
    fn from(act: ActOnTasks) -> Self {
        Self::ActOnTasks(Arc::new(act))
    }
}

macro_rules! any_command_from {
    ($($command:ident),*) => {
        $(impl From<$command> for AnyCommand {
            fn from(command: $command) -> Self {
                Self::$command(command)
            }
        })*
    };
}

any_command_from!(CreateQueue, DeleteQueue, CreateTask, UpdateTask, ActOnTask, DeleteTask, Claim, Heartbeat);
any_command_from!(ReportRun, ReportWorker, WithdrawWorker, Scan, CreateTasks, ClaimTasks, ReportRuns);
any_command_from!(ReportProgress, AddOutput, ReportTelemetry, ChangeSettings, Upkeep);

/// A list of commands of any kind.
#[macro_export]
macro_rules! commands {
    ($($command:expr),* $(,)?) => {
        vec![$($crate::conformance::any_command::AnyCommand::from($command)),*]
    };
}
