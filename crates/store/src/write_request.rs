//! The commands that a writer executes, each with the channel for its own answer.

use taskqueue_core::ids::QueueName;
use taskqueue_core::json::JsonObject;
use taskqueue_core::lifecycle::RunReport;

use crate::command::{
    ActOnFound, ActOnTask, AddOutput, ChangeSettings, Claim, ClaimTasks, CreateQueue, CreateTask, CreateTasks,
    DeleteQueue, DeleteTask, Heartbeat, NewTask, ReportProgress, ReportRun, ReportRuns, ReportTelemetry, ReportWorker,
    RunAction, SaveActivity, Scan, UpdateTask, UpdateTasks, Upkeep, WithdrawWorker,
};
use crate::submission::{Reply, Submission};

/// Bytes whose storing takes about as long as an item.
const ITEM_BYTES: usize = 4_096;
/// Routes whose entries in the pending order take about as long as an item.
const ITEM_ROUTES: usize = 16;
/// Dependencies that take about as long as an item: each is looked up and noted.
const ITEM_DEPENDENCIES: usize = 4;

#[derive(Debug)]
pub enum WriteRequest {
    CreateQueue(Submission<CreateQueue>),
    DeleteQueue(Submission<DeleteQueue>),
    CreateTask(Submission<CreateTask>),
    CreateTasks(Submission<CreateTasks>),
    UpdateTask(Submission<UpdateTask>),
    UpdateTasks(Submission<UpdateTasks>),
    ActOnTask(Submission<ActOnTask>),
    ActOnFound(Submission<ActOnFound>),
    DeleteTask(Submission<DeleteTask>),
    Claim(Submission<Claim>),
    ClaimTasks(Submission<ClaimTasks>),
    Heartbeat(Submission<Heartbeat>),
    ReportProgress(Submission<ReportProgress>),
    AddOutput(Submission<AddOutput>),
    ReportRun(Submission<ReportRun>),
    ReportRuns(Submission<ReportRuns>),
    ReportWorker(Submission<ReportWorker>),
    ReportTelemetry(Submission<ReportTelemetry>),
    WithdrawWorker(Submission<WithdrawWorker>),
    SaveActivity(Submission<SaveActivity>),
    ChangeSettings(Submission<ChangeSettings>),
    Upkeep(Submission<Upkeep>),
    Scan(Submission<Scan>),
}

impl WriteRequest {
    pub fn reply(&mut self) -> &mut dyn Reply {
        match self {
            Self::CreateQueue(submission) => submission,
            Self::DeleteQueue(submission) => submission,
            Self::CreateTask(submission) => submission,
            Self::CreateTasks(submission) => submission,
            Self::UpdateTask(submission) => submission,
            Self::UpdateTasks(submission) => submission,
            Self::ActOnTask(submission) => submission,
            Self::ActOnFound(submission) => submission,
            Self::DeleteTask(submission) => submission,
            Self::Claim(submission) => submission,
            Self::ClaimTasks(submission) => submission,
            Self::Heartbeat(submission) => submission,
            Self::ReportProgress(submission) => submission,
            Self::AddOutput(submission) => submission,
            Self::ReportRun(submission) => submission,
            Self::ReportRuns(submission) => submission,
            Self::ReportWorker(submission) => submission,
            Self::ReportTelemetry(submission) => submission,
            Self::WithdrawWorker(submission) => submission,
            Self::SaveActivity(submission) => submission,
            Self::ChangeSettings(submission) => submission,
            Self::Upkeep(submission) => submission,
            Self::Scan(submission) => submission,
        }
    }

    /// What it takes of a transaction: its items, the bytes that they store, and the routes of new tasks. Which routes the
    /// tasks of claims and reports have is not known before.
    pub fn items(&self) -> usize {
        match self {
            Self::CreateTask(create) => new_task_items(&create.command.new),
            Self::CreateTasks(create) => create.command.tasks.iter().map(|(_, new)| new_task_items(new)).sum(),
            Self::Heartbeat(heartbeat) => heartbeat.command.progress.as_ref().map_or(1, progress_items),
            Self::ReportProgress(report) => progress_items(&report.command.progress),
            Self::AddOutput(output) => 1 + output.command.text.len() / ITEM_BYTES,
            Self::ReportRun(report) => report_items(&report.command.report),
            Self::ReportRuns(reports) => reports.command.reports.iter().map(|report| run_items(&report.action)).sum(),
            Self::ClaimTasks(claim) => claim.command.run_ids.len(),
            Self::ActOnFound(found) => found.command.tasks(),
            Self::SaveActivity(save) => 1 + save.command.rows.len(),
            _ => 1,
        }
    }

    pub fn has_several_items(&self) -> bool {
        matches!(self, Self::CreateTasks(_) | Self::ClaimTasks(_) | Self::ReportRuns(_) | Self::ActOnFound(_))
    }

    /// Whether it can take long, because it reads or changes every task of a queue. It gets a transaction of its own.
    pub fn is_long(&self) -> bool {
        self.long_queue().is_some()
    }

    /// The queue of a long command.
    pub fn long_queue(&self) -> Option<&QueueName> {
        match self {
            Self::UpdateTasks(update) => Some(&update.command.bulk().queue),
            Self::DeleteQueue(delete) => Some(&delete.command.queue),
            // A claim must not begin with the old settings and end after the new ones were acknowledged.
            Self::ChangeSettings(change) => Some(&change.command.queue),
            _ => None,
        }
    }

    pub fn is_claim(&self) -> bool {
        matches!(self, Self::Claim(_) | Self::ClaimTasks(_))
    }

    pub fn is_scan(&self) -> bool {
        matches!(self, Self::Scan(_))
    }

    /// Whether tasks of deleted queues may have to be removed after it. A removal that failed is tried again after each scan.
    pub fn starts_purge(&self) -> bool {
        matches!(self, Self::DeleteQueue(_) | Self::Scan(_))
    }
}

fn new_task_items(NewTask { definition, .. }: &NewTask) -> usize {
    let bytes = definition.args.as_str().len() + definition.metadata.as_str().len();
    let dependencies = definition.scheduling.dependencies.len();
    1 + bytes / ITEM_BYTES + definition.routes.iter().count() / ITEM_ROUTES + dependencies / ITEM_DEPENDENCIES
}

fn run_items(action: &RunAction) -> usize {
    match action {
        RunAction::Heartbeat { progress: None } => 1,
        RunAction::Heartbeat { progress: Some(progress) } | RunAction::Progress { progress } => {
            progress_items(progress)
        }
        RunAction::Report(report) => report_items(report),
    }
}

fn progress_items(progress: &JsonObject) -> usize {
    1 + progress.as_str().len() / ITEM_BYTES
}

fn report_items(report: &RunReport) -> usize {
    let bytes = match report {
        RunReport::Complete { result } => result.as_str().len(),
        RunReport::Fail { failure, .. } => {
            failure.message.len() + failure.traceback.as_ref().map_or(0, |text| text.len())
        }
        RunReport::Unclaim { .. } => 0,
    };
    1 + bytes / ITEM_BYTES
}
