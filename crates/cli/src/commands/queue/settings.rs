//! `taskqueue queue settings`, `pause`, `resume`, `limit` and `retention`: what is claimed of a queue, and how long ended tasks are
//! kept. People get all settings after a change, in words.

use std::collections::BTreeMap;

use taskqueue_client::{
    QueueName, Retention, RetentionPatch, RouteLimitsPatch, SettingsPatch, Status, TaskSelection, Timestamp,
};
use taskqueue_core::words;

use crate::args::{QueueLimitArgs, QueueRetentionArgs};
use crate::client_context::ClientContext;
use crate::confirm::confirm;
use crate::failure::{CommandError, Failure};
use crate::output::{self, SettingsRecord};

pub(super) async fn show(context: &ClientContext, queue: &QueueName) -> Result<(), CommandError> {
    context.client.require_extensions().await?;
    let settings = context.client.queue_settings(queue).await?;
    Ok(context.printer.one(&SettingsRecord { queue, settings: &settings })?)
}

pub(super) async fn pause(context: &ClientContext, queue: &QueueName, paused: bool) -> Result<(), CommandError> {
    context.client.require_extensions().await?;
    let patch = SettingsPatch { paused: Some(paused), ..SettingsPatch::default() };
    let settings = context.client.change_settings(queue, &patch).await?;
    let word = if paused { "paused; running tasks go on" } else { "resumed" };
    Ok(context.printer.done(&SettingsRecord { queue, settings: &settings }, &format!("queue {queue} {word}"))?)
}

pub(super) async fn limit(context: &ClientContext, args: &QueueLimitArgs) -> Result<(), CommandError> {
    let patch = limits(args)?;
    context.client.require_extensions().await?;
    let settings = context.client.change_settings(&args.name, &patch).await?;
    Ok(context.printer.one(&SettingsRecord { queue: &args.name, settings: &settings })?)
}

pub(super) async fn retention(context: &ClientContext, args: &QueueRetentionArgs) -> Result<(), CommandError> {
    let retention = kept(args)?;
    context.client.require_extensions().await?;
    let before = context.client.queue_settings(&args.name).await?;
    let patch = SettingsPatch { retention, ..SettingsPatch::default() };
    // Only so many routes have limits, and this changes none.
    let after = patch.apply(&before).unwrap_or_else(|_| before.clone());
    let outdated = outdated(context, &args.name, &before.retention, &after.retention).await?;
    if outdated > 0 {
        let tasks = words::count(outdated, "task");
        let question = format!("Delete {tasks} of queue {} that ended longer ago, and later ones in time?", args.name);
        confirm(&question, args.confirm)?;
    }
    let settings = context.client.change_settings(&args.name, &patch).await?;
    Ok(context.printer.one(&SettingsRecord { queue: &args.name, settings: &settings })?)
}

fn limits(args: &QueueLimitArgs) -> Result<SettingsPatch, Failure> {
    let QueueLimitArgs { name, max_running, routes, none } = args;
    if max_running.is_none() && routes.is_empty() && !none {
        return Err(Failure::Usage(format!(
            "say which limit, for example --max-running 8, --route gpu=4 or --none; taskqueue queue settings {name} shows them"
        )));
    }
    let mut limits = BTreeMap::new();
    for (route, limit) in routes {
        if limits.insert(route.clone(), limit.0).is_some() {
            return Err(Failure::Usage(format!("--route {route} is given twice; give one limit for it")));
        }
    }
    Ok(SettingsPatch {
        max_running: if *none { Some(None) } else { max_running.map(|limit| limit.0) },
        route_limits: if *none { RouteLimitsPatch::Clear } else { RouteLimitsPatch::Merge(limits) },
        ..SettingsPatch::default()
    })
}

fn kept(args: &QueueRetentionArgs) -> Result<RetentionPatch, Failure> {
    let QueueRetentionArgs { name, succeeded, failed, cancelled, none, .. } = args;
    if *none {
        return Ok(RetentionPatch {
            succeeded_seconds: Some(None),
            failed_seconds: Some(None),
            cancelled_seconds: Some(None),
        });
    }
    if succeeded.is_none() && failed.is_none() && cancelled.is_none() {
        return Err(Failure::Usage(format!(
            "say which tasks, for example --succeeded 7d, --failed none or --none; taskqueue queue settings {name} shows \
             how long they are kept"
        )));
    }
    Ok(RetentionPatch {
        succeeded_seconds: succeeded.map(|time| time.0),
        failed_seconds: failed.map(|time| time.0),
        cancelled_seconds: cancelled.map(|time| time.0),
    })
}

/// How many tasks a change lets the server delete now, by the clock of this machine.
async fn outdated(
    context: &ClientContext,
    queue: &QueueName,
    before: &Retention,
    after: &Retention,
) -> Result<u64, CommandError> {
    let mut count = 0;
    for filter in newly_outdated(before, after, output::now()) {
        let selection = TaskSelection::all().filter(filter).include_archived(true);
        count += context.client.count_tasks(queue, &selection).await?;
    }
    Ok(count)
}

/// The tasks that are kept no longer because of a change, as a filter for each status.
fn newly_outdated(before: &Retention, after: &Retention, now: Timestamp) -> Vec<String> {
    let is_shorter = |status: &Status| match (before.seconds(*status), after.seconds(*status)) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(before), Some(after)) => after < before,
    };
    let filter = |status: Status| {
        let until = after.deleted_until(status, now)?;
        // What lies before the first year has no text, and nothing has ended then.
        let is_time = until > Timestamp::from_micros(0);
        let status = status.as_str();
        is_time.then(|| {
            format!(
                "status == \"{status}\" and (finished_at <= \"{until}\" or finished_at == null and updated_at <= \"{until}\")"
            )
        })
    };
    Retention::STATUSES.into_iter().filter(is_shorter).filter_map(filter).collect()
}

#[cfg(test)]
mod tests {
    use taskqueue_core::filter::TaskFilter;

    use super::*;
    use crate::args::OrNone;

    fn name() -> QueueName {
        QueueName::parse("q").unwrap()
    }

    #[test]
    fn limits_that_are_not_named_stay() {
        let route = taskqueue_client::Route::parse("gpu").unwrap();
        let none = || QueueLimitArgs { name: name(), max_running: None, routes: Vec::new(), none: false };
        let patch = limits(&QueueLimitArgs { max_running: Some(OrNone(Some(8))), ..none() }).unwrap();
        assert_eq!(patch, SettingsPatch { max_running: Some(Some(8)), ..SettingsPatch::default() });
        let routes = vec![(route.clone(), OrNone(None))];
        let patch = limits(&QueueLimitArgs { routes, ..none() }).unwrap();
        assert_eq!(patch.route_limits, RouteLimitsPatch::Merge([(route.clone(), None)].into()));
        let patch = limits(&QueueLimitArgs { none: true, ..none() }).unwrap();
        assert_eq!((patch.max_running, patch.route_limits), (Some(None), RouteLimitsPatch::Clear));
        assert!(matches!(limits(&none()), Err(Failure::Usage(message)) if message.contains("--max-running 8")));
        let routes = vec![(route.clone(), OrNone(Some(1))), (route, OrNone(Some(2)))];
        let twice = limits(&QueueLimitArgs { routes, ..none() });
        assert!(matches!(twice, Err(Failure::Usage(message)) if message.contains("gpu is given twice")));
    }

    #[test]
    fn only_what_a_change_makes_shorter_is_counted() {
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let kept = |succeeded, failed| Retention {
            succeeded_seconds: succeeded,
            failed_seconds: failed,
            cancelled_seconds: None,
        };
        assert!(newly_outdated(&kept(None, Some(60)), &kept(None, Some(60)), now).is_empty());
        assert!(newly_outdated(&kept(Some(60), Some(60)), &kept(Some(90), None), now).is_empty());
        let filters = newly_outdated(&kept(None, Some(60)), &kept(Some(600), Some(30)), now);
        assert_eq!(filters.len(), 2);
        for filter in &filters {
            TaskFilter::parse(filter).unwrap();
        }
        assert!(
            filters[0].starts_with("status == \"succeeded\" and (finished_at <= \"2027-01-15T07:50:00"),
            "{filters:?}"
        );
        assert!(newly_outdated(&kept(None, None), &kept(Some(u64::MAX), None), now).is_empty(), "nothing is so old");
    }
}
