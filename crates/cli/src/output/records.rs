//! How each kind of result looks: one file for each subject.

mod backup;
mod changes;
mod queue;
mod server;
mod task;
mod worker;

pub(crate) use self::backup::{BackupRecord, CheckRecord, CheckedFolder, FolderFile, FolderRecord, ProblemRecord};
pub(crate) use self::changes::{
    ChangedRecord, CountRecord, FieldChange, GroupRecord, PlannedRecord, RerunRecord, Summary, WaitSummary,
};
pub(crate) use self::queue::{
    ActivityRecord, CountedQueueRecord, QueueRecord, RouteRecord, SeriesRecord, SettingsRecord, StatsRecord,
};
pub(crate) use self::server::{HealthRecord, NewTokenRecord, SettingRecord, TokenRecord};
pub(crate) use self::task::{ExplanationRecord, ReasonRecord};
pub(crate) use self::worker::{WideWorker, worker_place};
