//! What is going on in a queue, and its activity over time.

use taskqueue_core::activity::{Activity, Counts, Event, Unit};
use taskqueue_core::json::{ObjectWriter, Value};
use taskqueue_core::stats::{ActivitySeries, QueueStats, RouteFigures};
use taskqueue_core::{Status, Timestamp, durations};
use utoipa::ToSchema;

use crate::object_reader::{ObjectReader, Unreadable, WireValue, wire_object};
use crate::schema::{self, either_answer};

wire_object! {
    /// What is going on in a queue.
    #[derive(Clone, Debug, PartialEq, ToSchema)]
    pub struct Stats, "stats" {
        pub tasks: TaskCounts,
        /// The routes with a pending or running task or a current worker, sorted, the first 10,000.
        pub routes: Vec<RouteStats>,
        /// How many more routes there are; only if there are any.
        #[schema(minimum = 1, nullable = false)]
        pub routes_left_out: Option<u64> = optional,
        pub activity: RecentActivity,
        /// From the creation of a task to its first claim, of the last hour; null if there was none.
        #[schema(required = true)]
        pub wait_seconds: Option<Percentiles>,
        /// From the claim to the end of runs that succeeded or failed, of the last hour; null if there was none.
        #[schema(required = true)]
        pub run_seconds: Option<Percentiles>,
        /// From when on activity is known.
        #[schema(value_type = schema::Timestamp)]
        pub since: Timestamp,
    }
}

impl Stats {
    /// The routes are those that the figures tell one by one.
    pub fn of(stats: &QueueStats) -> Self {
        let left_out = stats.figures.left_out.routes;
        let [pending, running, succeeded, failed, cancelled] = Status::ALL.map(|status| stats.figures.tasks(status));
        Self {
            tasks: TaskCounts { pending, running, succeeded, failed, cancelled },
            routes: stats.figures.routes().map(|(route, figures)| RouteStats::of(route, figures, stats.now)).collect(),
            routes_left_out: (left_out > 0).then_some(left_out),
            activity: RecentActivity {
                last_minute: EventCounts::of(&stats.last_minute),
                last_5_minutes: EventCounts::of(&stats.last_5_minutes),
                last_hour: EventCounts::of(&stats.last_hour),
            },
            wait_seconds: stats.wait.map(Percentiles::of),
            run_seconds: stats.run.map(Percentiles::of),
            since: stats.since,
        }
    }
}

wire_object! {
    /// How many tasks have each status.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ToSchema)]
    pub struct TaskCounts, "tasks" {
        pub pending: u64,
        pub running: u64,
        pub succeeded: u64,
        pub failed: u64,
        pub cancelled: u64,
    }
}

wire_object! {
    /// Tasks and workers of a route. A task counts for each of its routes.
    #[derive(Clone, Debug, PartialEq, ToSchema)]
    pub struct RouteStats, "route of the stats" {
        #[schema(value_type = schema::Route)]
        pub route: String,
        pub pending: u64,
        pub running: u64,
        /// How long the task has been waiting that waits longest; null if none does.
        #[schema(required = true, minimum = 0)]
        pub oldest_pending_seconds: Option<f64>,
        pub workers_idle: u64,
        pub workers_busy: u64,
    }
}

impl RouteStats {
    fn of(route: &str, figures: &RouteFigures, now: Timestamp) -> Self {
        let RouteFigures { pending, running, oldest_pending, workers_idle, workers_busy, .. } = *figures;
        let age = |since: Timestamp| seconds((now.as_micros() - since.as_micros()).max(0) as f64 / 1e6);
        let oldest_pending_seconds = oldest_pending.map(age);
        Self { route: route.to_owned(), pending, running, oldest_pending_seconds, workers_idle, workers_busy }
    }
}

wire_object! {
    /// What happened lately. Of a minute that a time covers in part, the same part counts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
    pub struct RecentActivity, "activity" {
        pub last_minute: EventCounts,
        pub last_5_minutes: EventCounts,
        pub last_hour: EventCounts,
    }
}

wire_object! {
    /// How often each event happened. `failed`, `released` and `expired` count runs: such a task may be tried again.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ToSchema)]
    pub struct EventCounts, "events" {
        pub created: u64,
        pub claimed: u64,
        pub succeeded: u64,
        pub failed: u64,
        pub released: u64,
        pub expired: u64,
        pub cancelled: u64,
    }
}

impl EventCounts {
    fn of(counts: &Counts) -> Self {
        let [created, claimed, succeeded, failed, released, expired, cancelled] =
            Event::ALL.map(|event| counts.of(event));
        Self { created, claimed, succeeded, failed, released, expired, cancelled }
    }

    pub fn get(&self, event: Event) -> u64 {
        let Self { created, claimed, succeeded, failed, released, expired, cancelled } = *self;
        [created, claimed, succeeded, failed, released, expired, cancelled][event as usize]
    }
}

wire_object! {
    /// What 50, 90 and 99 of 100 do not exceed, to about a fifth.
    #[derive(Clone, Copy, Debug, PartialEq, ToSchema)]
    pub struct Percentiles, "percentiles" {
        #[schema(minimum = 0)]
        pub p50: f64,
        #[schema(minimum = 0)]
        pub p90: f64,
        #[schema(minimum = 0)]
        pub p99: f64,
    }
}

impl Percentiles {
    fn of(percentiles: durations::Percentiles) -> Self {
        let durations::Percentiles { p50, p90, p99 } = percentiles;
        Self { p50: seconds(p50), p90: seconds(p90), p99: seconds(p99) }
    }
}

/// To the microsecond, which is as exact as times are.
fn seconds(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

wire_object! {
    /// The activity of a queue over time, for plots.
    #[derive(Clone, Debug, PartialEq, ToSchema)]
    pub struct Series, "series" {
        /// `minute` or `hour`
        #[schema(pattern = "^(minute|hour)$")]
        pub series: String,
        /// The minutes or hours in which something happened, sorted.
        pub items: Vec<SeriesItem>,
        /// From when on activity is known.
        #[schema(value_type = schema::Timestamp)]
        pub since: Timestamp,
    }
}

impl Series {
    pub fn of(series: &ActivitySeries) -> Self {
        let items = series.spans.iter().map(|(start, activity)| SeriesItem::of(*start, activity)).collect();
        Self { series: series.unit.as_str().to_owned(), items, since: series.since }
    }

    /// Reads the answer to a request for minutes or hours.
    pub fn read_by(value: &Value<'_>, unit: Unit) -> Result<Self, Unreadable> {
        let series = Self::read(value)?;
        if series.series == unit.as_str() {
            Ok(series)
        } else {
            Err(Unreadable("it is a series of something else".to_owned()))
        }
    }
}

wire_object! {
    /// One minute or hour.
    #[derive(Clone, Debug, PartialEq, ToSchema)]
    pub struct SeriesItem, "item of the series" {
        /// Its first moment.
        #[schema(value_type = schema::Timestamp)]
        pub start: Timestamp,
        #[serde(flatten)]
        pub counts: EventCounts = flat,
        /// As in stats, of this minute or hour.
        #[schema(required = true)]
        pub wait_seconds: Option<Percentiles>,
        /// As in stats, of this minute or hour.
        #[schema(required = true)]
        pub run_seconds: Option<Percentiles>,
    }
}

impl SeriesItem {
    fn of(start: Timestamp, activity: &Activity) -> Self {
        Self {
            start,
            counts: EventCounts::of(&activity.counts),
            wait_seconds: activity.waits.percentiles().map(Percentiles::of),
            run_seconds: activity.runs.percentiles().map(Percentiles::of),
        }
    }
}

either_answer! {
    /// Stats, or a series when the request named `series`.
    StatsAnswer, Stats, Series
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskqueue_core::activity::Record;
    use taskqueue_core::json;
    use taskqueue_core::limits::STATS_ROUTES;
    use taskqueue_core::stats::{QueueFigures, RouteSelection};
    use taskqueue_core::status::WorkerStatus;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn activity() -> Activity {
        let mut activity = Activity::default();
        activity.add(Record::CREATED);
        activity.add(Record { event: Event::Claimed, micros: Some(1_200_000) });
        activity
    }

    fn stats() -> QueueStats {
        let mut figures = QueueFigures::default();
        figures.add_tasks(["a"], Status::Pending, 2);
        figures.add_pending_since("a", at(90));
        figures.add_workers("b", WorkerStatus::Busy, 1);
        QueueStats::of(at(100), figures, &vec![(at(60), activity())], at(7))
    }

    #[test]
    fn stats_have_the_shape_of_the_contract_and_read_back() {
        let mut out = Vec::new();
        Stats::of(&stats()).write(&mut out);
        let counts = r#"{"created":1,"claimed":1,"succeeded":0,"failed":0,"released":0,"expired":0,"cancelled":0}"#;
        let expected = format!(
            r#"{{"tasks":{{"pending":2,"running":0,"succeeded":0,"failed":0,"cancelled":0}},"routes":[{{"route":"a","pending":2,"running":0,"oldest_pending_seconds":10.0,"workers_idle":0,"workers_busy":0}},{{"route":"b","pending":0,"running":0,"oldest_pending_seconds":null,"workers_idle":0,"workers_busy":1}}],"activity":{{"last_minute":{counts},"last_5_minutes":{counts},"last_hour":{counts}}},"wait_seconds":{{"p50":1.236078,"p90":1.236078,"p99":1.236078}},"run_seconds":null,"since":"1970-01-01T00:00:07.000000Z"}}"#
        );
        assert_eq!(String::from_utf8(out.clone()).unwrap(), expected);
        let read = Stats::read(&json::parse(&out).unwrap()).unwrap();
        assert_eq!(read, Stats::of(&stats()));
    }

    #[test]
    fn routes_beyond_the_limit_are_counted() {
        let mut figures = QueueFigures::default();
        (0..STATS_ROUTES + 3).for_each(|route| figures.add_tasks([&*route.to_string()], Status::Pending, 1));
        figures.keep(&RouteSelection::first(STATS_ROUTES));
        let mut out = Vec::new();
        Stats::of(&QueueStats { figures, ..stats() }).write(&mut out);
        let read = Stats::read(&json::parse(&out).unwrap()).unwrap();
        assert_eq!((read.routes.len(), read.routes_left_out), (STATS_ROUTES, Some(3)));
    }

    #[test]
    fn a_series_reads_back() {
        let mut out = Vec::new();
        let series = ActivitySeries { unit: Unit::Hour, spans: vec![(at(3_600), activity())], since: at(7) };
        Series::of(&series).write(&mut out);
        let value = json::parse(&out).unwrap();
        assert_eq!(Series::read_by(&value, Unit::Hour), Ok(Series::of(&series)));
        assert!(Series::read_by(&value, Unit::Minute).is_err());
    }
}
