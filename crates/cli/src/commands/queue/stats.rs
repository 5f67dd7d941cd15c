//! `taskqueue queue stats`: what is going on in a queue, for people with a plot of the last hour.

use taskqueue_client::{QueueName, RouteStats, SeriesSelection, Stats, Unit};
use taskqueue_core::words;

use crate::args::{Format, QueueStatsArgs};
use crate::client_context::ClientContext;
use crate::failure::CommandError;
use crate::output::{self, ActivityRecord, RouteRecord, SeriesRecord, StatsRecord};

/// What is plotted for people.
const PLOTTED_SECONDS: i64 = 3_600;

pub(super) async fn show(context: &ClientContext, args: &QueueStatsArgs) -> Result<(), CommandError> {
    context.client.require_extensions().await?;
    if let Some(unit) = args.series {
        return series(context, args, unit).await;
    }
    let stats = context.client.queue_stats(&args.name).await?;
    if context.printer.format() != Format::Table {
        return Ok(context.printer.one(&StatsRecord { queue: &args.name, stats: &stats, last_hour: &[] })?);
    }
    for_people(context, &args.name, &stats).await
}

async fn series(context: &ClientContext, args: &QueueStatsArgs, unit: Unit) -> Result<(), CommandError> {
    let selection = SeriesSelection { unit, from: args.from, to: args.to };
    let series = context.client.activity_series(&args.name, selection).await?;
    let records: Vec<SeriesRecord> = series.items.into_iter().map(SeriesRecord).collect();
    context.printer.list(&records)?;
    if records.is_empty() {
        output::note(&format!("nothing is known of that time; activity is counted since {}", series.since));
    }
    Ok(())
}

async fn for_people(context: &ClientContext, queue: &QueueName, stats: &Stats) -> Result<(), CommandError> {
    let from = Some(output::now().plus_seconds(-PLOTTED_SECONDS));
    let selection = SeriesSelection { unit: Unit::Minute, from, to: None };
    let last_hour = context.client.activity_series(queue, selection).await?.items;
    context.printer.one(&StatsRecord { queue, stats, last_hour: &last_hour })?;
    if !stats.routes.is_empty() {
        context.printer.text("")?;
        context.printer.list(&stats.routes.iter().map(RouteRecord).collect::<Vec<_>>())?;
    }
    context.printer.text("")?;
    context.printer.list(&ActivityRecord::all(&stats.activity))?;
    if let Some(left_out) = stats.routes_left_out {
        output::note(&format!("{} more routes are not shown", words::number(left_out)));
    }
    for route in stats.routes.iter().filter(|route| has_no_worker(route)) {
        let tasks = words::count(route.pending, "task");
        output::note(&format!("{tasks} pending on route {} and no worker for it was seen lately", route.route));
    }
    Ok(())
}

fn has_no_worker(route: &RouteStats) -> bool {
    route.pending > 0 && route.running == 0 && route.workers_idle + route.workers_busy == 0
}
