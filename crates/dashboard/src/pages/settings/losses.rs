//! What a shorter retention deletes at once: how many tasks of each state have ended longer ago.

use std::time::Duration;

use taskqueue_core::filter::TaskFilter;
use taskqueue_core::ids::QueueName;
use taskqueue_core::selection::TaskSelection;
use taskqueue_core::settings::{QueueSettings, Retention};
use taskqueue_core::status::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_store::StoreExt;
use tokio::time::timeout;

use crate::show;
use crate::state::Dashboard;
use crate::time_field;

/// How long counting may take. It looks at every task of the queue.
const COUNT_TIMEOUT: Duration = Duration::from_secs(5);

/// The tasks of a state that are kept for a shorter time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) status: &'static str,
    pub(super) kept: String,
    /// How many are deleted at once; nothing if that is not known.
    pub(super) count: Option<String>,
}

/// What is deleted that was kept before. Nothing if no retention becomes shorter.
pub(super) async fn read(
    dashboard: &Dashboard,
    queue: &QueueName,
    before: &QueueSettings,
    after: &QueueSettings,
) -> Vec<Loss> {
    let mut losses = Vec::new();
    let now = show::now();
    for (status, seconds) in shortened(&before.retention, &after.retention) {
        let selection = older(status, &after.retention, now);
        let count = match selection {
            Some(selection) => timeout(COUNT_TIMEOUT, dashboard.store().count_tasks(queue, selection)).await,
            None => Ok(Ok(0)),
        };
        let count = count.ok().and_then(Result::ok).map(|count| show::count(count, "task"));
        losses.push(Loss { status: status.as_str(), kept: time_field::written(seconds as f64), count });
    }
    losses
}

/// The states whose tasks are kept for a shorter time than before, and for how long.
fn shortened(before: &Retention, after: &Retention) -> Vec<(Status, u64)> {
    let is_shorter = |status: &Status, seconds: u64| before.seconds(*status).is_none_or(|before| seconds < before);
    let of =
        |status: Status| after.seconds(status).filter(|seconds| is_shorter(&status, *seconds)).map(|n| (status, n));
    Retention::STATUSES.into_iter().filter_map(of).collect()
}

/// The tasks of a state that ended so long ago.
fn older(status: Status, retention: &Retention, now: Timestamp) -> Option<TaskSelection> {
    let until = retention.deleted_until(status, now)?;
    let filter = format!("finished_at <= \"{until}\" or (finished_at == null and updated_at <= \"{until}\")");
    let filter = Some(TaskFilter::parse(&filter).ok()?);
    Some(TaskSelection { status: Some(status), filter, include_archived: true, ..TaskSelection::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_kept_for_a_shorter_time_is_lost() {
        let kept = |succeeded, failed| Retention {
            succeeded_seconds: succeeded,
            failed_seconds: failed,
            cancelled_seconds: Some(7),
        };
        let cases = [
            (kept(None, None), kept(None, None), vec![]),
            (kept(None, None), kept(Some(60), None), vec![(Status::Succeeded, 60)]),
            (kept(Some(60), Some(5)), kept(Some(61), Some(4)), vec![(Status::Failed, 4)]),
            (kept(Some(60), Some(5)), kept(None, Some(5)), vec![]),
        ];
        for (before, after, expected) in cases {
            assert_eq!(shortened(&before, &after), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn tasks_are_counted_by_their_end_archived_ones_too() {
        let retention = Retention { failed_seconds: Some(60), ..Retention::default() };
        let selection = older(Status::Failed, &retention, Timestamp::from_micros(0).plus_seconds(60)).unwrap();
        assert!(selection.include_archived && selection.status == Some(Status::Failed));
        let text = selection.filter.as_ref().map(|filter| filter.text().to_owned()).unwrap_or_default();
        assert!(text.starts_with("finished_at <= \"1970-01-01T00:00:00.000000Z\""), "{text}");
        assert!(older(Status::Succeeded, &retention, Timestamp::from_micros(0)).is_none());
    }
}
