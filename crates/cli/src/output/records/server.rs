//! A server and its queues: what is known of the server and of the way to it; its tokens, as they stand in its file, and a new one; the workers
//! that it has heard of, also in a wide form with what they measured; a queue with its name and counts, its settings, and what is going on in
//! it: routes, what happened lately, each minute or hour of a series.

use anstyle::AnsiColor;
use taskqueue_api::worker::write_observation;
use taskqueue_client::{
    Event, EventCounts, Health, JsonObject, Observation, Percentiles, Queue, QueueName, QueueSettings, RecentActivity,
    RouteStats, SeriesItem, Stats, Status, Timestamp, WorkerStatus,
};
use taskqueue_core::json::{ObjectWriter, write_array, write_string};
use taskqueue_core::words;
use taskqueue_core::words::telemetry::{Measure, Telemetry};

use super::task::seconds_in_words;
use crate::config::Setting;
use crate::files::hex;
use crate::output::{Cell, Columns, Record, columns};
use crate::tokens_file::FileToken;

/// The health of a server.
#[derive(Debug)]
pub(crate) struct HealthRecord<'a> {
    /// Its address.
    pub(crate) url: &'a str,
    /// Its answer.
    pub(crate) health: Health,
}

impl HealthRecord<'_> {
    fn word(&self) -> &'static str {
        if self.health.is_ok { "ok" } else { "error" }
    }
}

impl Record for HealthRecord<'_> {
    const COLUMNS: Columns = columns![text "status", text "api_version", text "url"];

    const FIELDS: &'static str = "status,api_version,url";

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let colour = if self.health.is_ok { AnsiColor::Green } else { AnsiColor::Red };
        vec![Cell::new(self.word()).coloured(colour), Cell::new(&self.health.api_version), Cell::new(self.url)]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        ObjectWriter::append_to(out)
            .text("status", self.word())
            .text("api_version", &self.health.api_version)
            .text("url", self.url)
            .end();
    }
}

/// One value of the configuration and where it comes from. The token is not among the values.
impl Record for Setting {
    const COLUMNS: Columns = columns![text "NAME", text "VALUE", shrinking "SOURCE"];

    const FIELDS: &'static str = "name,value,source";

    fn write_json(&self, out: &mut Vec<u8>) {
        let Self { name, value, source } = self;
        ObjectWriter::append_to(out).text("name", name).text("value", value).text("source", source).end();
    }

    fn key(&self) -> String {
        format!("{}={}", self.name, self.value)
    }
}

/// A token of a file, without the token.
impl Record for FileToken {
    const COLUMNS: Columns = columns![text "NAME", text "SCOPES", text "QUEUES", text "EXPIRES"];

    const FIELDS: &'static str = "name,scopes,queues,expires_at";

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let expires = match self.expires_at {
            None => Cell::new("never").dimmed(),
            Some(end) if end <= now => Cell::new(format!("expired {}", words::age(end, now))).coloured(AnsiColor::Red),
            Some(end) => Cell::new(words::age(end, now)),
        };
        vec![Cell::new(&self.name), Cell::new(scopes(self).join(",")), Cell::new(queues(self).join(",")), expires]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        members(ObjectWriter::append_to(out), self).end();
    }
}

/// A new token, which is shown this once.
pub(crate) struct NewTokenRecord<'a> {
    pub(crate) token: &'a str,
    pub(crate) entry: &'a FileToken,
}

impl Record for NewTokenRecord<'_> {
    const FIELDS: &'static str = "name,token,sha256";

    fn write_json(&self, out: &mut Vec<u8>) {
        let object = members(ObjectWriter::append_to(out).text("token", self.token), self.entry);
        object.text("lines", &self.entry.to_string()).end();
    }

    fn key(&self) -> String {
        self.token.to_owned()
    }
}

fn scopes(token: &FileToken) -> Vec<&str> {
    token.grant.scopes.named().map(|scope| scope.as_str()).collect()
}

fn queues(token: &FileToken) -> Vec<&str> {
    token.grant.queues.iter().map(|pattern| pattern.as_str()).collect()
}

/// Writes what the file says of a token.
fn members<'o>(object: ObjectWriter<&'o mut Vec<u8>>, token: &FileToken) -> ObjectWriter<&'o mut Vec<u8>> {
    let end = token.expires_at.map(|end| end.to_string());
    object
        .text("name", &token.name)
        .text("sha256", &hex(&token.digest))
        .field("scopes", |out| write_array(out, scopes(token), write_string))
        .field("queues", |out| write_array(out, queues(token), write_string))
        .text_or_null("expires_at", end.as_deref())
}

/// The place of the column EXPIRES, which the wide form has no room for.
const EXPIRES: usize = 5;

impl Record for Observation {
    // Workers of one machine differ at the end of WHERE, so it is not cut as much as others are.
    const COLUMNS: Columns = columns![
        text "ID", text "STATUS", shrinking "ROUTE", text "TASK", text "LAST SEEN", text "EXPIRES",
        shrinking_to "WHERE" 20
    ];

    const LEAVE_OUT: &'static [&'static str] = &["EXPIRES", "LAST SEEN", "ROUTE", "TASK", "WHERE"];

    const FIELDS: &'static str =
        "id,queue,route,status,task_id,last_seen_at,expires_at,metadata.host,metadata.slot,metadata.pid";

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(self.id.as_str()),
            status_cell(self),
            Cell::new(self.report.route.as_str()),
            Cell::optional(self.report.task_id.as_ref().map(|id| id.as_str())),
            Cell::new(words::age(self.last_seen_at, now)),
            Cell::new(words::age(self.expires_at, now)),
            Cell::optional(worker_place(&self.report.metadata)),
        ]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        write_observation(out, self);
    }
}

/// An observation with what the worker measured.
#[derive(Debug)]
pub(crate) struct WideWorker<'o>(pub(crate) &'o Observation);

impl Record for WideWorker<'_> {
    const COLUMNS: Columns = columns![
        text "ID", text "STATUS", shrinking "ROUTE", text "TASK", text "LAST SEEN", shrinking "WHERE", number "CPU",
        number "MEMORY", with_values "GPUS" 12, with_values "TELEMETRY" 12, text "MEASURED"
    ];

    const LEAVE_OUT: &'static [&'static str] = &["MEASURED", "LAST SEEN", "ROUTE", "TELEMETRY", "TASK", "WHERE"];

    const FIELDS: &'static str = "id,queue,route,status,task_id,last_seen_at,expires_at,metadata.host,metadata.slot,metadata.pid,\
         telemetry.cpu_percent,telemetry.memory_bytes,telemetry.gpus,telemetry_updated_at";

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let worker = self.0;
        let seen = worker.telemetry.as_ref().map(|telemetry| Telemetry::of(telemetry.value.as_str()));
        let seen = seen.unwrap_or_default();
        let text = |measure: Option<Measure>| Cell::optional(measure.map(|measure| measure.text));
        let gpus = seen.gpus.iter().map(|gpu| format!("{}: {}", gpu.index, gpu.words(" "))).collect::<Vec<_>>();
        let gpus = Some(gpus.join(", ")).filter(|gpus| !gpus.is_empty());
        let mut cells = worker.cells(now);
        cells.remove(EXPIRES);
        cells.extend([
            text(seen.cpu),
            text(seen.memory),
            Cell::optional(gpus),
            Cell::optional(seen.other),
            Cell::optional(worker.telemetry.as_ref().map(|telemetry| words::age(telemetry.updated_at, now))),
        ]);
        cells
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        write_observation(out, self.0);
    }
}

fn status_cell(worker: &Observation) -> Cell {
    let colour = match worker.report.status {
        WorkerStatus::Busy => AnsiColor::Cyan,
        WorkerStatus::Idle => AnsiColor::Green,
    };
    Cell::new(worker.report.status.as_str()).coloured(colour)
}

/// `gpu-3, slot 0, pid 4711`: as far as the worker says. Other workers than ours say what they like.
pub(crate) fn worker_place(metadata: &JsonObject) -> Option<String> {
    let host = metadata.text("host")?;
    let number = |name: &str| metadata.integer(name).map(|number| format!(", {name} {number}")).unwrap_or_default();
    let name = metadata.text("name").map(|name| format!(" ({name})")).unwrap_or_default();
    Some(format!("{host}{name}{}{}", number("slot"), number("pid")))
}

/// A queue with its counts for people. Programs get what the API says of a queue.
#[derive(Debug)]
pub(crate) struct QueueRecord {
    pub(crate) name: QueueName,
    /// In the order of `Status::ALL`; `None` if they are not known.
    pub(crate) counts: Option<[u64; 5]>,
}

impl Record for QueueRecord {
    const COLUMNS: Columns = columns![
        text "NAME", number "PENDING", number "RUNNING", number "SUCCEEDED", number "FAILED", number "CANCELLED"
    ];

    const LEAVE_OUT: &'static [&'static str] = &["CANCELLED", "SUCCEEDED", "FAILED", "RUNNING", "PENDING"];

    const FIELDS: &'static str = "name";

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let counts = self.counts.map_or([None::<&str>; 5].map(Cell::optional), |counts| counts.map(Cell::number));
        [Cell::new(self.name.as_str())].into_iter().chain(counts).collect()
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        Queue::write(out, &self.name);
    }
}

#[derive(Debug)]
pub(crate) struct SettingsRecord<'a> {
    pub(crate) queue: &'a QueueName,
    pub(crate) settings: &'a QueueSettings,
}

impl SettingsRecord<'_> {
    fn kept(&self, status: Status) -> Cell {
        let seconds = self.settings.retention.seconds(status);
        Cell::new(seconds.map_or_else(|| "for ever".to_owned(), seconds_in_words))
    }
}

fn limit(most: Option<u64>) -> Cell {
    Cell::new(most.map_or_else(|| "no limit".to_owned(), |most| most.to_string()))
}

impl Record for SettingsRecord<'_> {
    const COLUMNS: Columns = columns![
        text "queue", text "paused", number "max running", shrinking "max running by route",
        text "succeeded tasks are kept", text "failed tasks are kept", text "cancelled tasks are kept"
    ];

    const FIELDS: &'static str = "paused,max_running,route_limits,retention.succeeded_seconds,retention.failed_seconds,\
         retention.cancelled_seconds";

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let QueueSettings { paused, max_running, route_limits, .. } = self.settings;
        let paused = if *paused { Cell::new("yes").coloured(AnsiColor::Yellow) } else { Cell::new("no") };
        let routes: Vec<String> = route_limits.iter().map(|(route, most)| format!("{route}={most}")).collect();
        vec![
            Cell::new(self.queue.as_str()),
            paused,
            limit(*max_running),
            if routes.is_empty() { limit(None) } else { Cell::new(routes.join(", ")) },
            self.kept(Status::Succeeded),
            self.kept(Status::Failed),
            self.kept(Status::Cancelled),
        ]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.settings.to_json().as_bytes());
    }
}

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

impl Record for StatsRecord<'_> {
    const FIELDS: &'static str = "tasks.pending,tasks.running,tasks.succeeded,tasks.failed,tasks.cancelled";

    fn write_json(&self, out: &mut Vec<u8>) {
        self.stats.write(out);
    }

    fn key(&self) -> String {
        self.queue.to_string()
    }

    fn details(&self, now: Timestamp) -> Vec<(&'static str, Cell)> {
        let mut details = vec![("queue", Cell::new(self.queue.as_str()))];
        let tasks = &self.stats.tasks;
        let counts = [tasks.pending, tasks.running, tasks.succeeded, tasks.failed, tasks.cancelled];
        for (status, tasks) in Status::ALL.into_iter().zip(counts) {
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
    let [p50, p90, p99] = [p50, p90, p99].map(words::short_duration);
    format!("p50 {p50}, p90 {p90}, p99 {p99}")
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

/// Tasks and workers of routes as a table for people.
pub(crate) fn route_table(routes: &[RouteStats]) -> (Columns, Vec<Vec<Cell>>) {
    const COLUMNS: Columns = columns![
        shrinking "ROUTE", number "PENDING", number "RUNNING", number "OLDEST PENDING", number "IDLE WORKERS",
        number "BUSY WORKERS"
    ];
    let row = |stats: &RouteStats| {
        let RouteStats { route, pending, running, oldest_pending_seconds, workers_idle, workers_busy } = stats;
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
    };
    (COLUMNS, routes.iter().map(row).collect())
}

/// How often each event was counted lately, as a table for people.
pub(crate) fn activity_table(activity: &RecentActivity) -> (Columns, Vec<Vec<Cell>>) {
    const COLUMNS: Columns = columns![text "EVENT", number "LAST MINUTE", number "LAST 5 MINUTES", number "LAST HOUR"];
    let windows = [&activity.last_minute, &activity.last_5_minutes, &activity.last_hour];
    let row = |event: Event| {
        let counts = windows.map(|counts| Cell::new(words::number(counts.get(event))));
        [Cell::new(event.as_str())].into_iter().chain(counts).collect()
    };
    (COLUMNS, Event::ALL.map(row).into())
}

/// One minute or hour.
impl Record for SeriesItem {
    const COLUMNS: Columns = columns![
        text "START", number "CREATED", number "CLAIMED", number "SUCCEEDED", number "FAILED", number "RELEASED",
        number "EXPIRED", number "CANCELLED", number "WAITED (P50)", number "RAN (P50)"
    ];

    const LEAVE_OUT: &'static [&'static str] = &["RELEASED", "EXPIRED", "WAITED (P50)", "RAN (P50)"];

    const FIELDS: &'static str = "start,created,claimed,succeeded,failed,released,expired,cancelled,wait_seconds.p50,wait_seconds.p90,\
         wait_seconds.p99,run_seconds.p50,run_seconds.p90,run_seconds.p99";

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let Self { start, counts, wait_seconds, run_seconds } = self;
        let median = |of: &Option<Percentiles>| Cell::optional(of.map(|of| words::short_duration(of.p50)));
        let counts = Event::ALL.map(|event| Cell::number(EventCounts::get(counts, event)));
        let times = [median(wait_seconds), median(run_seconds)];
        [Cell::new(start.to_string())].into_iter().chain(counts).chain(times).collect()
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        self.write(out);
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
