//! Commands of every kind in one type, and their answers in another, for tests that mix them.

use std::fmt::Debug;

use super::prelude::*;

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

/// Declares commands of any kind: each with what its answer becomes.
macro_rules! any_command {
    ($($command:ident => $answer:expr,)*) => {
        /// A command of any kind.
        #[derive(Clone, Debug)]
        pub enum AnyCommand {
            $($command($command),)*
            UpdateTasks(Arc<BulkUpdate>),
            ActOnTasks(Arc<ActOnTasks>),
            Upkeep(Upkeep),
        }

        impl Write for AnyCommand {
            type Answer = AnyAnswer;

            async fn write_to(self, store: &dyn Store) -> Result<AnyAnswer, StoreError> {
                match self {
                    $(Self::$command(command) => store.write(command).await.map($answer),)*
                    Self::UpdateTasks(bulk) => store.update_tasks(bulk).await.map(AnyAnswer::Updated),
                    Self::ActOnTasks(act) => store.act_on_tasks(act).await.map(AnyAnswer::Acted),
                    // How much of it is done at a time is up to the store.
                    Self::Upkeep(_) => upkeep(store).await.map(done),
                }
            }
        }

        $(impl From<$command> for AnyCommand {
            fn from(command: $command) -> Self {
                Self::$command(command)
            }
        })*
    };
}

fn done((): ()) -> AnyAnswer {
    AnyAnswer::Done
}

any_command! {
    CreateQueue => AnyAnswer::QueueCreated,
    DeleteQueue => done,
    CreateTask => AnyAnswer::Created,
    CreateTasks => AnyAnswer::CreatedItems,
    UpdateTask => AnyAnswer::Task,
    ActOnTask => AnyAnswer::Task,
    DeleteTask => done,
    Claim => AnyAnswer::Claimed,
    ClaimTasks => AnyAnswer::ClaimedItems,
    Heartbeat => AnyAnswer::Lease,
    ReportProgress => done,
    AddOutput => done,
    ReportRun => done,
    ReportRuns => AnyAnswer::ReportedItems,
    ReportWorker => done,
    ReportTelemetry => done,
    WithdrawWorker => done,
    ChangeSettings => AnyAnswer::Settings,
    Scan => AnyAnswer::Scanned,
}

impl AnyCommand {
    /// What an item of a report of several runs says, alone.
    pub fn of_item(queue: QueueName, RunItem { task_id: id, run_id, action }: RunItem) -> Self {
        match action {
            RunAction::Heartbeat { progress } => Heartbeat { queue, id, run_id, progress }.into(),
            RunAction::Progress { progress } => ReportProgress { queue, id, run_id, progress }.into(),
            RunAction::End(report) => ReportRun { queue, id, run_id, report }.into(),
        }
    }
}

impl From<Upkeep> for AnyCommand {
    fn from(upkeep: Upkeep) -> Self {
        Self::Upkeep(upkeep)
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

/// A list of commands of any kind.
#[macro_export]
macro_rules! commands {
    ($($command:expr),* $(,)?) => {
        vec![$($crate::conformance::any_command::AnyCommand::from($command)),*]
    };
}
