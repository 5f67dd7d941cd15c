//! What each command answers, and how it becomes a request to a writer.

use taskqueue_core::settings::QueueSettings;
use taskqueue_core::task::Task;
use taskqueue_core::time::Timestamp;

use super::{
    ActOnFound, ActOnTask, ActedOnFound, AddOutput, ChangeSettings, Claim, ClaimTasks, Claimed, ClaimedItems, Command,
    CreateQueue, CreateTask, CreateTasks, CreatedTask, DeleteQueue, DeleteTask, Heartbeat, Items, Lookup,
    ReportProgress, ReportRun, ReportRuns, ReportTelemetry, ReportWorker, SaveActivity, Scan, Scanned, UpdateTask,
    UpdateTasks, Updated, Upkeep, Upkept, WithdrawWorker,
};
use crate::Store;
use crate::submission::Submission;
use crate::write_request::WriteRequest;

/// Commands that always need the writer, and whose answers hold no task.
macro_rules! commands {
    ($( $command:ident -> $answer:ty; )*) => {$(
        impl Command for $command {
            type Answer = $answer;
            fn into_request(submission: Submission<Self>) -> WriteRequest {
                WriteRequest::$command(submission)
            }
        }
    )*};
}

commands! {
    CreateQueue -> bool;
    DeleteQueue -> ();
    CreateTasks -> Items<bool>;
    UpdateTasks -> Updated;
    ActOnFound -> ActedOnFound;
    DeleteTask -> ();
    Heartbeat -> Timestamp;
    ReportProgress -> ();
    AddOutput -> ();
    ReportRun -> ();
    ReportRuns -> Items<Option<Timestamp>>;
    ReportWorker -> ();
    ReportTelemetry -> ();
    WithdrawWorker -> ();
    SaveActivity -> Timestamp;
    ChangeSettings -> QueueSettings;
    Scan -> Scanned;
}

impl Command for Upkeep {
    type Answer = Upkept;
    fn into_request(submission: Submission<Self>) -> WriteRequest {
        WriteRequest::Upkeep(submission)
    }
    fn known_answer(&self, store: &(impl Store + ?Sized)) -> Option<Upkept> {
        store.finds_nothing(Lookup::Upkeep).then(Upkept::default)
    }
}

impl Command for CreateTask {
    type Answer = CreatedTask;
    fn into_request(submission: Submission<Self>) -> WriteRequest {
        WriteRequest::CreateTask(submission)
    }
    fn answer_bytes(answer: &CreatedTask) -> usize {
        answer.task.bytes()
    }
}

impl Command for UpdateTask {
    type Answer = Box<Task>;
    fn into_request(submission: Submission<Self>) -> WriteRequest {
        WriteRequest::UpdateTask(submission)
    }
    fn answer_bytes(task: &Box<Task>) -> usize {
        task.bytes()
    }
}

impl Command for ActOnTask {
    type Answer = Box<Task>;
    fn into_request(submission: Submission<Self>) -> WriteRequest {
        WriteRequest::ActOnTask(submission)
    }
    fn answer_bytes(task: &Box<Task>) -> usize {
        task.bytes()
    }
}

impl Command for Claim {
    type Answer = Option<Box<Claimed>>;
    fn into_request(submission: Submission<Self>) -> WriteRequest {
        WriteRequest::Claim(submission)
    }
    fn known_answer(&self, store: &(impl Store + ?Sized)) -> Option<Self::Answer> {
        store.finds_nothing(Lookup::Task(self.into())).then_some(None)
    }
    fn answer_bytes(claimed: &Self::Answer) -> usize {
        claimed.as_ref().map_or(0, |claimed| claimed.task.bytes())
    }
}

impl Command for ClaimTasks {
    type Answer = ClaimedItems;
    fn into_request(submission: Submission<Self>) -> WriteRequest {
        WriteRequest::ClaimTasks(submission)
    }
    fn known_answer(&self, store: &(impl Store + ?Sized)) -> Option<Self::Answer> {
        store.finds_nothing(Lookup::Task(self.into())).then(|| self.nothing())
    }
    fn answer_bytes(items: &Self::Answer) -> usize {
        items.iter().flatten().flatten().map(|claimed| claimed.task.bytes()).sum()
    }
}
