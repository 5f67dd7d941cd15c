//! `taskqueue queue ...`: queues and their settings, what is claimed of them, how long ended tasks are kept, and what is going on in them.
//! People get all settings after a change, in words, and a plot of the last hour. `taskqueue worker ...`, and the lists and counts of every
//! command that come from the server in pages: printed, and how many tasks are in which state. Here it is said when a list is cut or empty.

use std::collections::BTreeMap;
use std::time::Duration;

use taskqueue_api::lists::Count;
use taskqueue_client::{
    Client, Error, ErrorCode, Group, GroupQuery, Observation, QueueName, Retention, RetentionPatch, RouteLimitsPatch,
    RouteStats, Selection, SeriesSelection, SettingsPatch, Stats, Status, TaskDimension, TaskSelection, Timestamp,
    Unit, Walk, WorkerSelection,
};
use taskqueue_core::status::Statuses;
use taskqueue_core::words;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::args::{
    CountWorkersArgs, DeleteQueueArgs, Format, ListWorkersArgs, OrNone, QueueArg, QueueArgs, QueueCommand,
    QueueLimitArgs, QueueRetentionArgs, QueueStatsArgs, WorkerArgs, WorkerCommand, WorkerSelectionArgs,
};
use crate::config::{ClientContext, Retrying};
use crate::failure::{CommandError, Failure, explain_missing_queue};
use crate::field_path::FieldPath;
use crate::output::{
    self, GroupRecord, Listing, QueueRecord, Record, SettingsRecord, StatsRecord, WideWorker, activity_table, confirm,
    route_table,
};

/// Enough that the answers do not wait for each other, and few enough for a server that has other work.
const CONCURRENT_REQUESTS: usize = 8;

pub(crate) fn run(args: QueueArgs) -> Result<(), Failure> {
    let context = ClientContext::open(&args.connection, &QueueArg::default(), args.output, Retrying::Interactive)?;
    context.run(None, async |context| {
        let outcome = match &args.command {
            QueueCommand::Create(args) => create(context, &args.name).await,
            QueueCommand::List => list(context).await,
            QueueCommand::Stats(args) => show_stats(context, args).await,
            QueueCommand::Settings(args) => show_settings(context, &args.name).await,
            QueueCommand::Pause(args) => set_paused(context, &args.name, true).await,
            QueueCommand::Resume(args) => set_paused(context, &args.name, false).await,
            QueueCommand::Limit(args) => change_limits(context, args).await,
            QueueCommand::Retention(args) => change_retention(context, args).await,
            QueueCommand::Delete(args) => delete(context, args).await,
        };
        match outcome {
            // With names that are similar.
            Err(CommandError::Call(error)) if error.code() == Some(ErrorCode::QueueNotFound) => {
                Err(explain_missing_queue(context, &error, false).await.into())
            }
            outcome => outcome,
        }
    })
}

async fn create(context: &ClientContext, name: &QueueName) -> Result<(), CommandError> {
    let created = context.client.create_queue(name).await?;
    let word = if created.created { "created" } else { "already there" };
    let record = QueueRecord { name: created.value.name, counts: None };
    Ok(context.printer.done(&record, &format!("queue {name} {word}"))?)
}

/// People see how many tasks each queue has; programs get the names.
async fn list(context: &ClientContext) -> Result<(), CommandError> {
    let names: Vec<QueueName> = context.client.queues().await?.into_iter().map(|queue| queue.name).collect();
    let mut listing = context.printer.listing::<QueueRecord>();
    for names in names.chunks(CONCURRENT_REQUESTS) {
        let counts = match context.printer.format {
            Format::Table => counts(&context.client, names).await,
            _ => BTreeMap::new(),
        };
        for name in names {
            listing.push(&QueueRecord { name: name.clone(), counts: counts.get(name).copied() })?;
        }
    }
    listing.finish()?;
    if names.is_empty() {
        output::note("there are no queues; create one with: taskqueue queue create NAME");
    }
    Ok(())
}

/// The tasks of a few queues by status. The list is of use without them, so a failure is no error.
async fn counts(client: &Client, queues: &[QueueName]) -> BTreeMap<QueueName, [u64; 5]> {
    let mut calls = JoinSet::new();
    for queue in queues.iter().cloned() {
        let client = client.clone();
        calls.spawn(async move {
            let StatusCounts(counts) = StatusCounts::of(&client, &queue, TaskSelection::all()).await.ok()?;
            Some((queue, counts))
        });
    }
    calls.join_all().await.into_iter().flatten().collect()
}

async fn delete(context: &ClientContext, args: &DeleteQueueArgs) -> Result<(), CommandError> {
    if args.cascade {
        let tasks = context.client.count(&args.name, &TaskSelection::all().include_archived(true)).await?;
        if tasks > 0 {
            let tasks = words::count(tasks, "task");
            confirm(&format!("Delete queue {} with {tasks}?", args.name), args.confirm)?;
        }
        context.client.delete_queue_with_tasks(&args.name).await?;
    } else {
        context.client.delete_queue(&args.name).await?;
    }
    let record = QueueRecord { name: args.name.clone(), counts: None };
    Ok(context.printer.done(&record, &format!("queue {} deleted", args.name))?)
}

async fn show_settings(context: &ClientContext, queue: &QueueName) -> Result<(), CommandError> {
    context.client.require_extensions().await?;
    let settings = context.client.queue_settings(queue).await?;
    Ok(context.printer.one(&SettingsRecord { queue, settings: &settings })?)
}

async fn set_paused(context: &ClientContext, queue: &QueueName, paused: bool) -> Result<(), CommandError> {
    context.client.require_extensions().await?;
    let patch = SettingsPatch { paused: Some(paused), ..SettingsPatch::default() };
    let settings = context.client.change_settings(queue, &patch).await?;
    let word = if paused { "paused; running tasks go on" } else { "resumed" };
    Ok(context.printer.done(&SettingsRecord { queue, settings: &settings }, &format!("queue {queue} {word}"))?)
}

async fn change_limits(context: &ClientContext, args: &QueueLimitArgs) -> Result<(), CommandError> {
    let patch = limits(args)?;
    context.client.require_extensions().await?;
    let settings = context.client.change_settings(&args.name, &patch).await?;
    Ok(context.printer.one(&SettingsRecord { queue: &args.name, settings: &settings })?)
}

async fn change_retention(context: &ClientContext, args: &QueueRetentionArgs) -> Result<(), CommandError> {
    let retention = kept(args)?;
    context.client.require_extensions().await?;
    let before = context.client.queue_settings(&args.name).await?;
    let patch = SettingsPatch { retention, ..SettingsPatch::default() };
    // Only so many routes have limits, and this changes none.
    let after = patch.apply(&before).unwrap_or_else(|_| before.clone());
    // By the clock of this machine.
    let mut outdated = 0;
    for filter in newly_outdated(&before.retention, &after.retention, output::now()) {
        let selection = TaskSelection::all().filter(filter).include_archived(true);
        outdated += context.client.count(&args.name, &selection).await?;
    }
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
    if !none && succeeded.is_none() && failed.is_none() && cancelled.is_none() {
        return Err(Failure::Usage(format!(
            "say which tasks, for example --succeeded 7d, --failed none or --none; taskqueue queue settings {name} shows \
             how long they are kept"
        )));
    }
    let seconds = |time: &Option<OrNone<u64>>| if *none { Some(None) } else { time.map(|time| time.0) };
    let [succeeded_seconds, failed_seconds, cancelled_seconds] = [succeeded, failed, cancelled].map(seconds);
    Ok(RetentionPatch { succeeded_seconds, failed_seconds, cancelled_seconds })
}

/// The tasks that are kept no longer because of a change, as a filter for each status.
fn newly_outdated(before: &Retention, after: &Retention, now: Timestamp) -> Vec<String> {
    let filter = |(status, _): (Status, u64)| {
        let outdated = after.outdated_filter(status, now)?;
        Some(format!("status == \"{}\" and {outdated}", status.as_str()))
    };
    after.shorter_than(before).filter_map(filter).collect()
}

/// The time that is plotted for people.
const PLOTTED_SECONDS: i64 = 3_600;

async fn show_stats(context: &ClientContext, args: &QueueStatsArgs) -> Result<(), CommandError> {
    context.client.require_extensions().await?;
    if let Some(unit) = args.series {
        return print_series(context, args, unit).await;
    }
    let stats = context.client.queue_stats(&args.name).await?;
    if context.printer.format != Format::Table {
        return Ok(context.printer.one(&StatsRecord { queue: &args.name, stats: &stats, last_hour: &[] })?);
    }
    print_stats(context, &args.name, &stats).await
}

async fn print_series(context: &ClientContext, args: &QueueStatsArgs, unit: Unit) -> Result<(), CommandError> {
    let selection = SeriesSelection { unit, from: args.from, to: args.to };
    let series = context.client.activity_series(&args.name, selection).await?;
    context.printer.list(&series.items)?;
    if series.items.is_empty() {
        output::note(&format!("nothing is known of that time; activity is counted since {}", series.since));
    }
    Ok(())
}

async fn print_stats(context: &ClientContext, queue: &QueueName, stats: &Stats) -> Result<(), CommandError> {
    let from = Some(output::now().plus_seconds(-PLOTTED_SECONDS));
    let selection = SeriesSelection { unit: Unit::Minute, from, to: None };
    let last_hour = context.client.activity_series(queue, selection).await?.items;
    context.printer.one(&StatsRecord { queue, stats, last_hour: &last_hour })?;
    if !stats.routes.is_empty() {
        context.printer.text("")?;
        context.printer.table(route_table(&stats.routes))?;
    }
    context.printer.text("")?;
    context.printer.table(activity_table(&stats.activity))?;
    if let Some(left_out) = stats.routes_left_out {
        output::note(&format!("{} more routes are not shown", words::number(left_out)));
    }
    let has_no_worker = |route: &&RouteStats| route.running == 0 && route.workers_idle + route.workers_busy == 0;
    for route in stats.routes.iter().filter(|route| route.pending > 0).filter(has_no_worker) {
        let tasks = words::count(route.pending, "task");
        output::note(&format!("{tasks} pending on route {} and no worker for it was seen lately", route.route));
    }
    Ok(())
}

/// The time for which a list that is already printed waits for the number of what it left out.
const COUNT_PATIENCE: Duration = Duration::from_secs(2);

/// The part of a list that was printed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Printed {
    pub(super) count: u64,
    /// True if a table left something out.
    pub(super) is_cut: bool,
}

/// Prints at most `max_items` items as records, which `push` makes of them.
pub(super) async fn print_items<T, R: Record>(
    context: &ClientContext,
    mut walk: Walk<T>,
    max_items: Option<u64>,
    fields: Option<&[FieldPath]>,
    push: impl Fn(&mut Listing<'_>, &T) -> Result<(), Failure>,
) -> Result<Printed, CommandError> {
    let mut listing = context.printer.listing_of::<R>(fields);
    while max_items.is_none_or(|max_items| listing.count < max_items) {
        let Some(item) = walk.next().await? else { break };
        push(&mut listing, &item)?;
    }
    let count = listing.finish()?;
    // Programs that give a limit know that there may be more.
    let may_be_cut = context.printer.format == Format::Table && max_items == Some(count);
    Ok(Printed { count, is_cut: may_be_cut && walk.next().await?.is_some() })
}

/// Says how much a table left out. `total` is the number of all items; if it takes too long or fails, none is given.
pub(super) async fn note_cut(printed: Printed, noun: &str, total: impl Future<Output = Result<u64, Error>>) {
    let shown = words::number(printed.count);
    let total = timeout(COUNT_PATIENCE, total).await.ok().and_then(Result::ok);
    // Items may have been deleted meanwhile; a number that cannot be right is left out.
    output::note(&match total.filter(|total| *total > printed.count) {
        Some(total) => format!("{shown} of {} {noun} shown; --all shows them all", words::number(total)),
        None => format!("{shown} {noun} shown, there are more; --all shows them all"),
    });
}

/// Prints how many there are, in all or of each group. Returns false if there was no group to print.
pub(super) async fn print_count<S: Selection>(
    context: &ClientContext,
    selection: S,
    group_by: Option<&[S::Dimension]>,
) -> Result<bool, CommandError>
where
    S::Dimension: Copy,
{
    let Some(dimensions) = group_by else {
        context.printer.one(&Count { count: context.client.count(&context.queue, &selection).await? })?;
        return Ok(true);
    };
    let words: Vec<&'static str> = dimensions.iter().copied().map(S::WORD).collect();
    let mut walk = context.client.walk(&context.queue, GroupQuery::by(dimensions.iter().copied(), selection));
    let mut listing = context.printer.listing::<GroupRecord<'_>>();
    while let Some(group) = walk.next().await? {
        listing.push(&GroupRecord { dimensions: &words, group })?;
    }
    Ok(listing.finish()? > 0)
}

/// Counts of one moment, in the order of `Status::ALL`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StatusCounts(pub(super) [u64; 5]);

impl StatusCounts {
    pub(super) async fn of(client: &Client, queue: &QueueName, selection: TaskSelection) -> Result<Self, Error> {
        // There are five groups at most: one page, which is one moment.
        let page = client.page(queue, &GroupQuery::by([TaskDimension::Status], selection)).await?;
        Ok(Self::of_groups(&page.items))
    }

    /// The sums of groups whose keys end with a status.
    pub(super) fn of_groups(groups: &[Group]) -> Self {
        let mut counts = Self::default();
        for group in groups {
            if let Some(status) = group.key.last().and_then(|word| Status::parse(word)) {
                counts.0[status as usize] += group.count;
            }
        }
        counts
    }

    pub(super) fn add(&mut self, status: Status) {
        self.0[status as usize] += 1;
    }

    pub(super) fn get(&self, status: Status) -> u64 {
        self.0[status as usize]
    }

    pub(super) fn total(&self) -> u64 {
        self.among(Statuses::ALL)
    }

    /// Returns how many are in one of these states.
    pub(super) fn among(&self, statuses: Statuses) -> u64 {
        statuses.iter().map(|status| self.get(status)).sum()
    }

    /// The counts as words, such as `2 failed, 1 cancelled`, of the states that `is_meant` names.
    pub(super) fn words(&self, is_meant: impl Fn(Status) -> bool) -> String {
        let meant = Status::ALL.into_iter().filter(|status| is_meant(*status) && self.get(*status) > 0);
        let words: Vec<String> = meant.map(|status| format!("{} {}", self.get(status), status.as_str())).collect();
        words.join(", ")
    }
}

/// Lists or counts workers.
pub(super) fn run_worker(args: WorkerArgs) -> Result<(), Failure> {
    let context = ClientContext::open(&args.connection, &args.queue, args.output, Retrying::Interactive)?;
    context.run(args.filter.as_deref(), async |context| match &args.command {
        WorkerCommand::List(args) => list_workers(context, args).await,
        WorkerCommand::Count(args) => count_workers(context, args).await,
    })
}

async fn list_workers(context: &ClientContext, args: &ListWorkersArgs) -> Result<(), CommandError> {
    let max_items = args.limit.max_items(context.printer.format);
    let walk = context.client.walk(&context.queue, args.selection.query(max_items));
    let push = |listing: &mut Listing<'_>, worker: &Observation| listing.push(worker);
    let push_wide = |listing: &mut Listing<'_>, worker: &Observation| listing.push(&WideWorker(worker));
    let printed = match args.wide {
        true => print_items::<_, WideWorker<'_>>(context, walk, max_items, None, push_wide).await?,
        false => print_items::<_, Observation>(context, walk, max_items, None, push).await?,
    };
    if printed.is_cut {
        note_cut(printed, "workers", context.client.count(&context.queue, &args.selection.selection())).await;
    } else if printed.count == 0 {
        note_no_workers(context, &args.selection).await;
    }
    Ok(())
}

/// Says why a list is empty: whether there are no workers, or none that match.
async fn note_no_workers(context: &ClientContext, selection: &WorkerSelectionArgs) {
    let queue = &context.queue;
    let others = match &selection.filter {
        None => Some(0),
        // The list itself was answered, so a failure of this request is not worth an error.
        Some(_) => context.client.count(queue, &WorkerSelection::all()).await.ok(),
    };
    output::note(&match others {
        Some(0) => format!("no worker of queue {queue} has reported within the last five minutes"),
        Some(others) => format!("no worker matches; queue {queue} has {}", words::count(others, "worker")),
        None => format!("no worker of queue {queue} matches"),
    });
}

async fn count_workers(context: &ClientContext, args: &CountWorkersArgs) -> Result<(), CommandError> {
    if !print_count(context, args.selection.selection(), args.group_by.as_deref()).await? {
        note_no_workers(context, &args.selection).await;
    }
    Ok(())
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
        let kept =
            |succeeded_seconds, failed_seconds| Retention { succeeded_seconds, failed_seconds, ..Retention::default() };
        assert!(newly_outdated(&kept(None, Some(60)), &kept(None, Some(60)), now).is_empty());
        assert!(newly_outdated(&kept(Some(60), Some(60)), &kept(Some(90), None), now).is_empty());
        let filters = newly_outdated(&kept(None, Some(60)), &kept(Some(600), Some(30)), now);
        assert_eq!(filters.len(), 2);
        for filter in &filters {
            TaskFilter::parse(filter).unwrap();
        }
        let expected = r#"status == "succeeded" and (finished_at <= "2027-01-15T07:50:00"#;
        assert!(filters[0].starts_with(expected), "{filters:?}");
        assert!(newly_outdated(&kept(None, None), &kept(Some(u64::MAX), None), now).is_empty(), "nothing is so old");
    }

    #[test]
    fn counts_are_read_from_groups_and_unknown_words_are_no_status() {
        let group = |key: &[&str], count| Group { key: key.iter().map(|&word| word.to_owned()).collect(), count };
        let counts = StatusCounts::of_groups(&[
            group(&["cancelled"], 1),
            group(&["gpu", "failed"], 2),
            group(&["pending"], 4),
            group(&["running"], 8),
            group(&["succeeded"], 16),
            group(&["paused"], 32),
            group(&[], 64),
        ]);
        assert_eq!((counts.get(Status::Failed), counts.total(), counts.among(Statuses::ENDED)), (2, 31, 19));
    }

    #[test]
    fn counts_are_summed_and_named_by_state() {
        let counts = StatusCounts([1, 0, 0, 2, 0]);
        assert_eq!(counts.total(), 3);
        assert_eq!(counts.among(Statuses::ENDED), 2);
        assert_eq!(counts.words(|_| true), "1 pending, 2 failed");
        assert_eq!(counts.words(|status| status == Status::Running), "");
    }
}
