//! How each kind of result looks: one file for each subject.

mod backup;
mod changes;
mod queue;
mod server;
mod task;

pub(crate) use self::backup::{BackupRecord, CheckRecord, CheckedFolder, FolderFile, FolderRecord, ProblemRecord};
pub(crate) use self::changes::{
    ChangedRecord, CountRecord, FieldChange, GroupRecord, PlannedRecord, RerunRecord, Summary, WaitSummary,
};
pub(crate) use self::queue::{ActivityRecord, QueueRecord, RouteRecord, SeriesRecord, SettingsRecord, StatsRecord};
pub(crate) use self::server::{HealthRecord, NewTokenRecord, SettingRecord, TokenRecord, WideWorker, worker_place};
pub(crate) use self::task::{ExplanationRecord, ReasonRecord};
