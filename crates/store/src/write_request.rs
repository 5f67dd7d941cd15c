//! The commands that a writer executes (`command.rs`), each with the channel for its own answer: what they have in common, and how
//! they differ for a batch.

use taskqueue_core::lifecycle::TaskAction;

pub use crate::command::WriteRequest;
use crate::weight;

/// Declares the commands: the queue that each writes to, if it is one, its answer, the method of [`Execution`], its fields, what
/// the store may know to be missing and the answer then, and the bytes of the task in an answer that holds one.
///
/// [`Execution`]: crate::execute::Execution
macro_rules! commands {
    ($(
        $(#[$doc:meta])*
        $command:ident($($($queue:ident).+)?) -> $answer:ty: $execute:ident $fields:tt
            $(=> known |$this:ident| $lookup:expr => $nothing:expr;)? $(=> bytes $bytes:expr;)?
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug)]
            pub struct $command $fields
        )*

        #[derive(Debug)]
        pub enum WriteRequest {
            $($command(Submission<$command>),)*
        }

        impl WriteRequest {
            pub fn reply(&mut self) -> &mut dyn Reply {
                match self {
                    $(Self::$command(submission) => submission,)*
                }
            }

            /// Executes the command. Gives the bytes of the answer, which the request keeps.
            pub(crate) fn execute<T: BatchTransaction>(
                &mut self,
                execution: &mut Execution<'_, T>,
            ) -> StoreResult<usize> {
                match self {
                    $(Self::$command(submission) => submission.execute(|command| execution.$execute(command)),)*
                }
            }

            /// Returns the queue that it writes to, if it is one.
            #[allow(unused_variables, reason = "some commands are about no queue")]
            pub fn queue(&self) -> Option<&QueueName> {
                match self {
                    $(Self::$command(submission) => [$(&submission.command.$($queue).+)?].into_iter().next(),)*
                }
            }
        }

        $(impl Command for $command {
            type Answer = $answer;
            fn into_request(submission: Submission<Self>) -> WriteRequest {
                WriteRequest::$command(submission)
            }
            $(fn known_answer(&self, store: &(impl Store + ?Sized)) -> Option<Self::Answer> {
                let $this = self;
                if store.finds_nothing($lookup) { Some($nothing) } else { None }
            })?
            $(fn answer_bytes(answer: &Self::Answer) -> usize {
                let bytes: fn(&Self::Answer) -> usize = $bytes;
                bytes(answer)
            })?
        })*
    };
}
pub(crate) use commands;

impl WriteRequest {
    /// Returns what it takes of a transaction, as far as that is known before (`weight.rs`).
    pub fn items(&self) -> usize {
        match self {
            Self::CreateTask(create) => weight::of_new_task(&create.command.new),
            Self::CreateTasks(create) => create.command.tasks.iter().map(|(_, new)| weight::of_new_task(new)).sum(),
            Self::UpdateTask(update) => weight::of_update(&update.command.update),
            Self::Heartbeat(heartbeat) => heartbeat.command.progress.as_ref().map_or(1, weight::of_progress),
            Self::ReportProgress(report) => weight::of_progress(&report.command.progress),
            Self::AddOutput(output) => 1 + weight::of_bytes(output.command.text.len()),
            Self::ReportRun(report) => 1 + weight::of_bytes(report.command.report.bytes()),
            Self::ReportRuns(reports) => {
                reports.command.reports.iter().map(|report| weight::of_run_action(&report.action)).sum()
            }
            Self::ClaimTasks(claim) => claim.command.run_ids.len(),
            Self::ActOnFound(found) => found.command.tasks.len(),
            Self::SaveActivity(save) => 1 + save.command.rows.len(),
            Self::ActOnTask(_) | Self::DeleteTask(_) if self.may_weigh_more() => weight::UNKNOWN,
            _ => 1,
        }
    }

    /// Returns whether it may turn out to be far heavier than [`Self::items`] says: what the task waits for is looked up or
    /// forgotten.
    pub fn may_weigh_more(&self) -> bool {
        match self {
            Self::UpdateTask(update) => update.command.update.changes_waiting(),
            Self::ActOnTask(act) => act.command.action == TaskAction::Requeue,
            Self::DeleteTask(_) => true,
            _ => false,
        }
    }

    /// Returns whether it can take long, because it reads or changes every task of a queue. It gets a transaction of its own.
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

    /// Returns whether tasks of deleted queues may have to be removed after it. A removal that failed is tried again after each
    /// scan.
    pub fn starts_purge(&self) -> bool {
        matches!(self, Self::DeleteQueue(_) | Self::Scan(_))
    }
}
