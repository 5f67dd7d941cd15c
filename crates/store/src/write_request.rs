//! The commands that a writer executes, each with the channel for its own answer.

use taskqueue_core::ids::QueueName;
use taskqueue_core::lifecycle::TaskAction;

use crate::command::{
    ActOnFound, ActOnTask, AddOutput, ChangeSettings, Claim, ClaimTasks, CreateQueue, CreateTask, CreateTasks,
    DeleteQueue, DeleteTask, Heartbeat, ReportProgress, ReportRun, ReportRuns, ReportTelemetry, ReportWorker,
    SaveActivity, Scan, UpdateTask, UpdateTasks, Upkeep, WithdrawWorker,
};
use crate::submission::{Reply, Submission};
use crate::weight;

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

    /// What it takes of a transaction, as far as that is known before (`weight.rs`).
    pub fn items(&self) -> usize {
        match self {
            Self::CreateTask(create) => weight::of_new_task(&create.command.new),
            Self::CreateTasks(create) => create.command.tasks.iter().map(|(_, new)| weight::of_new_task(new)).sum(),
            Self::UpdateTask(update) => weight::of_update(&update.command.update),
            Self::Heartbeat(heartbeat) => heartbeat.command.progress.as_ref().map_or(1, weight::of_progress),
            Self::ReportProgress(report) => weight::of_progress(&report.command.progress),
            Self::AddOutput(output) => 1 + weight::of_bytes(output.command.text.len()),
            Self::ReportRun(report) => weight::of_report(&report.command.report),
            Self::ReportRuns(reports) => {
                reports.command.reports.iter().map(|report| weight::of_run_action(&report.action)).sum()
            }
            Self::ClaimTasks(claim) => claim.command.run_ids.len(),
            Self::ActOnFound(found) => found.command.tasks(),
            Self::SaveActivity(save) => 1 + save.command.rows.len(),
            Self::ActOnTask(_) | Self::DeleteTask(_) if self.may_weigh_more() => weight::UNKNOWN,
            _ => 1,
        }
    }

    /// Whether it may turn out to be far heavier than [`Self::items`] says: what the task waits for is looked up or forgotten.
    pub fn may_weigh_more(&self) -> bool {
        match self {
            Self::UpdateTask(update) => update.command.update.changes_waiting(),
            Self::ActOnTask(act) => act.command.action == TaskAction::Requeue,
            Self::DeleteTask(_) => true,
            _ => false,
        }
    }

    /// The queue that it writes to, if it is one.
    pub fn queue(&self) -> Option<&QueueName> {
        Some(match self {
            Self::CreateQueue(create) => &create.command.queue,
            Self::DeleteQueue(delete) => &delete.command.queue,
            Self::CreateTask(create) => &create.command.queue,
            Self::CreateTasks(create) => &create.command.queue,
            Self::UpdateTask(update) => &update.command.queue,
            Self::UpdateTasks(update) => &update.command.bulk().queue,
            Self::ActOnTask(act) => &act.command.queue,
            Self::ActOnFound(found) => &found.command.act().queue,
            Self::DeleteTask(delete) => &delete.command.queue,
            Self::Claim(claim) => &claim.command.queue,
            Self::ClaimTasks(claim) => &claim.command.queue,
            Self::Heartbeat(heartbeat) => &heartbeat.command.queue,
            Self::ReportProgress(report) => &report.command.queue,
            Self::AddOutput(output) => &output.command.queue,
            Self::ReportRun(report) => &report.command.queue,
            Self::ReportRuns(reports) => &reports.command.queue,
            Self::ReportWorker(report) => &report.command.queue,
            Self::ReportTelemetry(report) => &report.command.queue,
            Self::WithdrawWorker(withdraw) => &withdraw.command.queue,
            Self::ChangeSettings(change) => &change.command.queue,
            Self::SaveActivity(_) | Self::Upkeep(_) | Self::Scan(_) => return None,
        })
    }

    /// Whether it can take long, because it reads or changes every task of a queue. It gets a transaction of its own.
    pub fn is_long(&self) -> bool {
        // A claim must not begin with the old settings and end after the new ones were acknowledged.
        matches!(self, Self::UpdateTasks(_) | Self::DeleteQueue(_) | Self::ChangeSettings(_))
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
