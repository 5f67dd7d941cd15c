//! What is going on in a queue: the queue, its routes, what happened lately, and each minute or hour of a series.

use anstyle::AnsiColor;
use taskqueue_client::{
    Event, EventCounts, Percentiles, QueueName, RecentActivity, RouteStats, SeriesItem, Stats, Status, Timestamp,
};
use taskqueue_core::json::ObjectWriter;
use taskqueue_core::words;

use crate::output::{Cell, Column, Record};

/// The bars of a plot, from nothing to the most.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The minutes of one bar and how many bars there are: an hour.
const BAR_MINUTES: i64 = 2;
const BAR_COUNT: usize = 30;

/// A queue with its tasks, and a plot of its last hour.
#[derive(Debug)]
pub(crate) struct StatsRecord<'a> {
    pub(crate) queue: &'a QueueName,
    pub(crate) stats: &'a Stats,
    /// The minutes in which something happened.
    pub(crate) last_hour: &'a [SeriesItem],
}

impl StatsRecord<'_> {
    fn tasks(&self) -> [(Status, u64); 5] {
        let tasks = &self.stats.tasks;
        [
            (Status::Pending, tasks.pending),
            (Status::Running, tasks.running),
            (Status::Succeeded, tasks.succeeded),
            (Status::Failed, tasks.failed),
            (Status::Cancelled, tasks.cancelled),
        ]
    }
}

impl Record for StatsRecord<'_> {
    const COLUMNS: &'static [Column<'static>] = &[
        Column::text("QUEUE"),
        Column::number("PENDING"),
        Column::number("RUNNING"),
        Column::number("SUCCEEDED"),
        Column::number("FAILED"),
        Column::number("CANCELLED"),
    ];

    const FIELDS: &'static [&'static str] =
        &["tasks.pending", "tasks.running", "tasks.succeeded", "tasks.failed", "tasks.cancelled"];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let counts = self.tasks().map(|(_, tasks)| Cell::number(tasks));
        [Cell::new(self.queue.as_str())].into_iter().chain(counts).collect()
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        self.stats.write(out);
    }

    fn key(&self) -> String {
        self.queue.to_string()
    }

    fn details(&self, now: Timestamp) -> Vec<(&'static str, Cell)> {
        let mut details = vec![("queue", Cell::new(self.queue.as_str()))];
        for (status, tasks) in self.tasks() {
            let cell = Cell::new(words::number(tasks));
            details.push((status.as_str(), if tasks > 0 { cell.with_style_of(&Cell::status(status)) } else { cell }));
        }
        details.push(("waited", Cell::optional(self.stats.wait_seconds.map(percentiles))));
        details.push(("ran", Cell::optional(self.stats.run_seconds.map(percentiles))));
        details.push(("last hour", Cell::optional(plot(self.last_hour, now))));
        details.push(("counted since", Cell::new(words::age(self.stats.since, now))));
        details
    }
}

fn percentiles(Percentiles { p50, p90, p99 }: Percentiles) -> String {
    format!(
        "p50 {}, p90 {}, p99 {}",
        words::short_duration(p50),
        words::short_duration(p90),
        words::short_duration(p99)
    )
}

/// The runs that ended in each two minutes of the last hour as bars, with the most of them; nothing if none ended.
fn plot(minutes: &[SeriesItem], now: Timestamp) -> Option<String> {
    let mut ended = [0_u64; BAR_COUNT];
    for minute in minutes {
        let minutes_ago = (now.as_micros() - minute.start.as_micros()).max(0) / 60_000_000;
        let bar = usize::try_from(minutes_ago / BAR_MINUTES).unwrap_or(usize::MAX).min(BAR_COUNT - 1);
        ended[BAR_COUNT - 1 - bar] += minute.counts.succeeded + minute.counts.failed;
    }
    let most = ended.into_iter().max().filter(|most| *most > 0)?;
    let bar = |count: u64| BARS[(count * (BARS.len() as u64 - 1)).div_ceil(most) as usize];
    let bars: String = ended.into_iter().map(bar).collect();
    Some(format!("{bars}  up to {} ended in {BAR_MINUTES} minutes", words::count(most, "run")))
}

/// Tasks and workers of a route.
#[derive(Debug)]
pub(crate) struct RouteRecord<'a>(pub(crate) &'a RouteStats);

impl Record for RouteRecord<'_> {
    const COLUMNS: &'static [Column<'static>] = &[
        Column::shrinking("ROUTE"),
        Column::number("PENDING"),
        Column::number("RUNNING"),
        Column::number("OLDEST PENDING"),
        Column::number("IDLE WORKERS"),
        Column::number("BUSY WORKERS"),
    ];

    const FIELDS: &'static [&'static str] =
        &["route", "pending", "running", "oldest_pending_seconds", "workers_idle", "workers_busy"];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let RouteStats { route, pending, running, oldest_pending_seconds, workers_idle, workers_busy } = self.0;
        let workers = |count: u64| {
            let is_missing = *pending > 0 && workers_idle + workers_busy == 0;
            if is_missing { Cell::number(count).coloured(AnsiColor::Red) } else { Cell::number(count) }
        };
        vec![
            Cell::new(route),
            Cell::number(pending),
            Cell::number(running),
            Cell::optional(oldest_pending_seconds.map(words::short_duration)),
            workers(*workers_idle),
            workers(*workers_busy),
        ]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn key(&self) -> String {
        self.0.route.clone()
    }
}

/// How often one event happened lately.
#[derive(Debug)]
pub(crate) struct ActivityRecord {
    event: Event,
    counts: [u64; 3],
}

impl ActivityRecord {
    /// One for each event.
    pub(crate) fn all(activity: &RecentActivity) -> Vec<Self> {
        let windows = [&activity.last_minute, &activity.last_5_minutes, &activity.last_hour];
        Event::ALL.map(|event| Self { event, counts: windows.map(|counts| counts.get(event)) }).into()
    }
}

impl Record for ActivityRecord {
    const COLUMNS: &'static [Column<'static>] = &[
        Column::text("EVENT"),
        Column::number("LAST MINUTE"),
        Column::number("LAST 5 MINUTES"),
        Column::number("LAST HOUR"),
    ];

    const FIELDS: &'static [&'static str] = &["event", "last_minute", "last_5_minutes", "last_hour"];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let counts = self.counts.map(|count| Cell::new(words::number(count)));
        [Cell::new(self.event.as_str())].into_iter().chain(counts).collect()
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        let [minute, minutes, hour] = self.counts;
        let object = ObjectWriter::append_to(out).text("event", self.event.as_str());
        object.integer("last_minute", minute).integer("last_5_minutes", minutes).integer("last_hour", hour).end();
    }

    fn key(&self) -> String {
        self.event.as_str().to_owned()
    }
}

/// One minute or hour.
#[derive(Debug)]
pub(crate) struct SeriesRecord(pub(crate) SeriesItem);

impl Record for SeriesRecord {
    const COLUMNS: &'static [Column<'static>] = &[
        Column::text("START"),
        Column::number("CREATED"),
        Column::number("CLAIMED"),
        Column::number("SUCCEEDED"),
        Column::number("FAILED"),
        Column::number("RELEASED"),
        Column::number("EXPIRED"),
        Column::number("CANCELLED"),
        Column::number("WAITED (P50)"),
        Column::number("RAN (P50)"),
    ];

    const LEAVE_OUT: &'static [&'static str] = &["RELEASED", "EXPIRED", "WAITED (P50)", "RAN (P50)"];

    const FIELDS: &'static [&'static str] = &[
        "start",
        "created",
        "claimed",
        "succeeded",
        "failed",
        "released",
        "expired",
        "cancelled",
        "wait_seconds.p50",
        "wait_seconds.p90",
        "wait_seconds.p99",
        "run_seconds.p50",
        "run_seconds.p90",
        "run_seconds.p99",
    ];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let SeriesItem { start, counts, wait_seconds, run_seconds } = &self.0;
        let median = |of: &Option<Percentiles>| Cell::optional(of.map(|of| words::short_duration(of.p50)));
        let counts = Event::ALL.map(|event| Cell::number(EventCounts::get(counts, event)));
        let times = [median(wait_seconds), median(run_seconds)];
        [Cell::new(start.to_string())].into_iter().chain(counts).chain(times).collect()
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn key(&self) -> String {
        self.0.start.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::now;

    #[test]
    fn a_plot_has_a_bar_for_each_two_minutes_and_none_without_runs() {
        let now = now();
        let minute = |minutes_ago: i64, succeeded| SeriesItem {
            start: now.plus_seconds(-60 * minutes_ago),
            counts: EventCounts { succeeded, ..EventCounts::default() },
            wait_seconds: None,
            run_seconds: None,
        };
        assert_eq!(plot(&[], now), None);
        assert_eq!(plot(&[minute(3, 0)], now), None);
        let shown = plot(&[minute(59, 4), minute(2, 1), minute(1, 5), minute(0, 3)], now).unwrap();
        assert_eq!(shown, format!("▄{}▁█  up to 8 runs ended in 2 minutes", " ".repeat(27)));
    }
}
