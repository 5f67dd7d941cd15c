//! How each kind of result looks: one file per noun.

mod backup;
mod changed;
mod counts;
mod explanation;
mod installation;
mod planned;
mod queue;
mod rerun;
mod server;
mod settings;
mod stats;
mod summary;
mod task;
mod token;
mod worker;

pub(crate) use self::backup::{BackupRecord, CheckRecord, CheckedFolder, ProblemRecord};
pub(crate) use self::changed::{ChangedRecord, FieldChange};
pub(crate) use self::counts::{CountRecord, GroupRecord};
pub(crate) use self::explanation::{ExplanationRecord, ReasonRecord};
pub(crate) use self::installation::{FolderFile, FolderRecord};
pub(crate) use self::planned::PlannedRecord;
pub(crate) use self::queue::{CountedQueueRecord, QueueRecord};
pub(crate) use self::rerun::RerunRecord;
pub(crate) use self::server::{HealthRecord, SettingRecord};
pub(crate) use self::settings::SettingsRecord;
pub(crate) use self::stats::{ActivityRecord, RouteRecord, SeriesRecord, StatsRecord};
pub(crate) use self::summary::{Summary, WaitSummary};
pub(crate) use self::token::{NewTokenRecord, TokenRecord};
pub(crate) use self::worker::{WideWorker, worker_place};
