//! Writes a snapshot in one of the two text formats that Prometheus reads. They differ in the names under which counters are declared, and
//! in the mark of the end. Prometheus names both and prefers OpenMetrics; who names none may be anybody with a browser or `curl`, or a
//! program that knows the older one only (docs/decisions/0060).

use std::{array, fmt};

use hyper::HeaderMap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::registry::Registry;
use taskqueue_core::activity::Event;
use taskqueue_core::pending_parts::PendingState;
use taskqueue_core::status::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_store::histogram::HistogramValues;

use super::list::{self, Metric};
use super::snapshot::Snapshot;
use crate::prefer::MediaRange;

const OPEN_METRICS: &str = "application/openmetrics-text";
/// The version that is written.
const OPEN_METRICS_VERSION: &str = "1.0.0";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextFormat {
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4.
    Plain,
}

impl TextFormat {
    /// Its media type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// OpenMetrics if it is named and nothing is preferred to it. What cannot be read is not there: the text is given to everybody.
    pub(crate) fn asked_for(headers: &HeaderMap) -> Self {
        let (mut open, mut plain) = (0, 0);
        for range in MediaRange::accepted(headers) {
            match range.name.to_ascii_lowercase().as_str() {
                OPEN_METRICS if range.version.is_none_or(|version| version == OPEN_METRICS_VERSION) => {
                    open = open.max(range.weight);
                }
                "text/plain" | "text/*" | "*/*" => plain = plain.max(range.weight),
                _ => {}
            }
        }
        if open > 0 && open >= plain { Self::OpenMetrics } else { Self::Plain }
    }
}

/// The whole text of a snapshot, which is measured before it is written: with many names it has megabytes.
pub(crate) struct MetricsText {
    /// Holds this one snapshot, and nothing is global.
    registry: Registry,
    format: TextFormat,
    bytes: usize,
}

impl MetricsText {
    pub(crate) fn of(snapshot: Snapshot, format: TextFormat) -> Self {
        let (mut registry, mut length) = (Registry::default(), ByteCounter(0));
        registry.register_collector(Box::new(SnapshotCollector { snapshot, format }));
        // Neither this nor writing to memory fails.
        let _ = encode(&mut length, &registry, format);
        Self { registry, format, bytes: length.0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn write(self) -> Vec<u8> {
        let mut out = String::with_capacity(self.bytes);
        let _ = encode(&mut out, &self.registry, self.format);
        out.into_bytes()
    }
}

fn encode(out: &mut impl fmt::Write, registry: &Registry, format: TextFormat) -> fmt::Result {
    match format {
        TextFormat::OpenMetrics => text::encode(out, registry),
        TextFormat::Plain => text::encode_registry(out, registry),
    }
}

/// How many bytes were written.
struct ByteCounter(usize);

impl fmt::Write for ByteCounter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

/// A snapshot and how it is written.
#[derive(Debug)]
struct SnapshotCollector {
    snapshot: Snapshot,
    format: TextFormat,
}

impl Collector for SnapshotCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = &self.snapshot;
        let out = &mut MetricsWriter { encoder, format: self.format };
        snapshot.write_server(out)?;
        snapshot.write_requests(out)?;
        snapshot.write_queues(out)?;
        snapshot.write_events(out)?;
        snapshot.write_storage(out)?;
        snapshot.write_process(out)
    }
}

/// Where metrics are written to.
struct MetricsWriter<'a> {
    encoder: DescriptorEncoder<'a>,
    format: TextFormat,
}

impl Snapshot {
    fn write_server(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        Series::begin(out, &list::BUILD_INFO)?.gauge([env!("CARGO_PKG_VERSION")], 1_u64)?;
        Series::begin(out, &list::READY)?.gauge([], u64::from(self.is_ready))?;
        Series::begin(out, &list::FIGURES_UP)?.gauge([], u64::from(self.figures.is_some()))?;
        Series::begin(out, &list::TLS_EXPIRES)?.gauge_if_known(self.tls_expires_seconds)
    }

    fn write_requests(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let mut requests = Series::begin(out, &list::HTTP_REQUESTS)?;
        for endpoint in &self.endpoints {
            for (status, count) in &endpoint.statuses {
                requests.counter([endpoint.method, endpoint.path, status], *count)?;
            }
        }
        let mut durations = Series::begin(out, &list::HTTP_DURATION)?;
        for endpoint in &self.endpoints {
            durations.histogram([endpoint.method, endpoint.path], &endpoint.seconds)?;
        }
        let mut errors = Series::begin(out, &list::HTTP_ERRORS)?;
        self.errors.iter().try_for_each(|(code, count)| errors.counter([code], *count))?;
        let mut connections = Series::begin(out, &list::HTTP_CONNECTIONS)?;
        if let Some(counts) = self.connections {
            connections.gauge(["busy"], counts.open.saturating_sub(counts.idle) as u64)?;
            connections.gauge(["idle"], counts.idle as u64)?;
        }
        let limit = self.connections.map(|counts| counts.limit as u64);
        Series::begin(out, &list::HTTP_CONNECTIONS_LIMIT)?.gauge_if_known(limit)?;
        let mut waiting = Series::begin(out, &list::WAITING)?;
        for (kind, count) in ["claim", "heartbeat", "output"].into_iter().zip(self.waiting) {
            waiting.gauge([kind], count as u64)?;
        }
        Series::begin(out, &list::WAITING_LIMIT)?.gauge([], self.waiting_limit as u64)
    }

    fn write_queues(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let queues = || self.figures.iter().flat_map(|figures| &figures.labelled.queues);
        let mut tasks = Series::begin(out, &list::TASKS)?;
        for (queue, shown) in queues() {
            for (status, count) in Status::ALL.into_iter().zip(shown.tasks) {
                tasks.gauge([queue, status.as_str()], count)?;
            }
        }
        let mut pending = Series::begin(out, &list::PENDING)?;
        for (queue, shown) in queues() {
            for (state, count) in PendingState::ALL.into_iter().zip(shown.pending.into_iter().flatten()) {
                pending.gauge([queue, state.as_str()], count)?;
            }
        }
        let limits = || queues().filter_map(|(queue, shown)| Some((queue, shown.limits?)));
        let mut paused = Series::begin(out, &list::QUEUE_PAUSED)?;
        limits().try_for_each(|(queue, limits)| paused.gauge([queue], u64::from(limits.is_paused)))?;
        let mut limit = Series::begin(out, &list::QUEUE_LIMIT)?;
        for (queue, limits) in limits() {
            limits.max_running.map_or(Ok(()), |most| limit.gauge([queue], most))?;
        }
        self.write_routes(out)
    }

    fn write_routes(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let routes = || self.figures.iter().flat_map(|figures| &figures.labelled.routes);
        let mut limit = Series::begin(out, &list::ROUTE_LIMIT)?;
        for ((queue, route), shown) in routes() {
            shown.running_limit.map_or(Ok(()), |most| limit.gauge([queue, route], most))?;
        }
        let mut tasks = Series::begin(out, &list::ROUTE_TASKS)?;
        for ((queue, route), shown) in routes() {
            tasks.gauge([queue, route, "pending"], shown.figures.pending)?;
            tasks.gauge([queue, route, "running"], shown.figures.running)?;
        }
        let now = self.figures.as_ref().map(|known| known.now);
        let age = |since: Option<Timestamp>| Some(seconds_between(since?, now?));
        let mut pending = Series::begin(out, &list::OLDEST_PENDING)?;
        for ((queue, route), shown) in routes() {
            age(shown.figures.oldest_pending).map_or(Ok(()), |age| pending.gauge([queue, route], age))?;
        }
        let mut claimable = Series::begin(out, &list::OLDEST_CLAIMABLE)?;
        for ((queue, route), shown) in routes() {
            age(shown.oldest_claimable).map_or(Ok(()), |age| claimable.gauge([queue, route], age))?;
        }
        let mut workers = Series::begin(out, &list::WORKERS)?;
        for ((queue, route), shown) in routes() {
            workers.gauge([queue, route, "idle"], shown.figures.workers_idle)?;
            workers.gauge([queue, route, "busy"], shown.figures.workers_busy)?;
        }
        Ok(())
    }

    fn write_events(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let mut events = Series::begin(out, &list::TASK_EVENTS)?;
        for (queue, counts) in &self.events {
            for (event, count) in Event::ALL.into_iter().zip(counts.events) {
                events.counter([queue, event.as_str()], count)?;
            }
        }
        let mut waits = Series::begin(out, &list::TASK_WAIT)?;
        self.events.iter().try_for_each(|(queue, counts)| waits.histogram([queue], &counts.wait_seconds()))?;
        let mut runs = Series::begin(out, &list::TASK_RUN)?;
        self.events.iter().try_for_each(|(queue, counts)| runs.histogram([queue], &counts.run_seconds()))
    }

    fn write_storage(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let storage = &self.storage;
        Series::begin(out, &list::WRITER_COMMANDS)?.histogram([], &storage.writer.commands)?;
        Series::begin(out, &list::WRITER_COMMIT)?.histogram([], &storage.writer.commit_seconds)?;
        Series::begin(out, &list::WRITER_SYNC)?.histogram([], &storage.writer.sync_seconds)?;
        Series::begin(out, &list::WRITER_QUEUE)?.gauge([], storage.queued_writes as u64)?;
        Series::begin(out, &list::WRITER_CAPACITY)?.gauge([], storage.queue_capacity as u64)?;
        Series::begin(out, &list::WRITER_FAILURES)?.counter([], storage.writer.failures)?;
        Series::begin(out, &list::READERS)?.gauge([], storage.readers as u64)?;
        Series::begin(out, &list::READERS_IN_USE)?.gauge([], storage.readers_in_use as u64)?;
        Series::begin(out, &list::LONG_READS)?.gauge([], storage.long_reads as u64)?;
        let database_bytes = self.figures.as_ref().and_then(|figures| figures.database_bytes);
        Series::begin(out, &list::DATABASE_BYTES)?.gauge_if_known(database_bytes)
    }

    fn write_process(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let mut budgets = Series::begin(out, &list::BUDGET)?;
        self.budgets.iter().try_for_each(|budget| budgets.gauge([budget.part], budget.total_bytes as u64))?;
        let mut used = Series::begin(out, &list::BUDGET_USED)?;
        self.budgets.iter().try_for_each(|budget| used.gauge([budget.part], budget.used_bytes as u64))?;
        Series::begin(out, &list::MEMORY_LIMIT)?.gauge_if_known(self.memory_limit_bytes)?;
        Series::begin(out, &list::LOG_LINES_LOST)?.counter([], self.log_lines_lost)?;
        let process = &self.process;
        let mut cpu = Series::begin(out, &list::CPU)?;
        process.cpu_seconds.map_or(Ok(()), |seconds| cpu.counter([], seconds))?;
        Series::begin(out, &list::RESIDENT)?.gauge_if_known(process.resident_bytes)?;
        Series::begin(out, &list::VIRTUAL)?.gauge_if_known(process.virtual_bytes)?;
        Series::begin(out, &list::OPEN_FDS)?.gauge_if_known(process.open_fds)?;
        Series::begin(out, &list::MAX_FDS)?.gauge_if_known(process.max_fds)?;
        Series::begin(out, &list::START_TIME)?.gauge_if_known(process.start_time_seconds)
    }
}

fn seconds_between(since: Timestamp, now: Timestamp) -> f64 {
    (now.as_micros() - since.as_micros()).max(0) as f64 / 1e6
}

/// The series of one metric.
struct Series<'a> {
    encoder: MetricEncoder<'a>,
    format: TextFormat,
    labels: &'static [&'static str],
}

impl<'a> Series<'a> {
    /// Writes the head of a metric. OpenMetrics declares a counter without `_total`, and the encoder appends it to each series; the
    /// plain text declares it with its whole name.
    fn begin(out: &'a mut MetricsWriter<'_>, metric: &'a Metric) -> Result<Self, fmt::Error> {
        let name = match out.format {
            TextFormat::OpenMetrics => metric.name.strip_suffix("_total").unwrap_or(metric.name),
            TextFormat::Plain => metric.name,
        };
        let encoder = out.encoder.encode_descriptor(name, metric.help, None, metric.kind)?;
        Ok(Self { encoder, format: out.format, labels: metric.labels })
    }

    fn counter<const N: usize>(
        &mut self,
        values: [&str; N],
        count: impl EncodeCounterValue + EncodeGaugeValue,
    ) -> fmt::Result {
        let format = self.format;
        self.one(values, |encoder| match format {
            TextFormat::OpenMetrics => encoder.encode_counter::<NoLabelSet, _, f64>(&count, None),
            // A value under the name that was declared.
            TextFormat::Plain => encoder.encode_gauge(&count),
        })
    }

    fn gauge<const N: usize>(&mut self, values: [&str; N], value: impl EncodeGaugeValue) -> fmt::Result {
        self.one(values, |encoder| encoder.encode_gauge(&value))
    }

    /// Writes a gauge without labels, left out if it is not known.
    fn gauge_if_known(&mut self, value: Option<impl EncodeGaugeValue>) -> fmt::Result {
        value.map_or(Ok(()), |value| self.gauge([], value))
    }

    fn histogram<const N: usize>(&mut self, values: [&str; N], counted: &HistogramValues) -> fmt::Result {
        let HistogramValues { buckets, sum } = counted;
        self.one(values, |encoder| encoder.encode_histogram::<NoLabelSet>(*sum, counted.count(), buckets, None))
    }

    /// Writes one series, by the values of its labels in the order of the list.
    fn one<const N: usize>(
        &mut self,
        values: [&str; N],
        write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        debug_assert_eq!(self.labels.len(), N, "as many values as labels");
        let labels: [_; N] =
            array::from_fn(|place| (self.labels.get(place).copied().unwrap_or_default(), values[place]));
        match N {
            // Otherwise there would be empty brackets.
            0 => write(&mut self.encoder),
            _ => write(&mut self.encoder.encode_family(&labels)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{ACCEPT, HeaderValue};

    use super::*;

    fn asked_for(accept: &[&'static str]) -> TextFormat {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        TextFormat::asked_for(&headers)
    }

    #[test]
    fn open_metrics_is_given_to_those_who_name_it_and_prefer_nothing_else() {
        // What Prometheus 2.5, 2.45 and 3.0 send, and Prometheus 3.0 when it is told to prefer the text.
        const PROMETHEUS: [&str; 4] = [
            "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
             text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
             application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
             text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.2",
        ];
        let cases: [(&[&str], TextFormat); 17] = [
            (&[], TextFormat::Plain),
            (&[""], TextFormat::Plain),
            (&["*/*"], TextFormat::Plain),
            (&["text/plain"], TextFormat::Plain),
            (&["text/html,application/xhtml+xml,*/*;q=0.8"], TextFormat::Plain),
            (&["application/json"], TextFormat::Plain),
            (&["application/openmetrics-text"], TextFormat::OpenMetrics),
            (&["Application/OpenMetrics-Text; Version=\"1.0.0\"; Q=0.1"], TextFormat::OpenMetrics),
            (&["application/openmetrics-text;q=0"], TextFormat::Plain),
            (&["application/openmetrics-text;q=much"], TextFormat::Plain),
            (&["application/openmetrics-text;version=2.0.0"], TextFormat::Plain),
            (&["text/*", "application/openmetrics-text;q=0.9"], TextFormat::Plain),
            (&["text/plain", "application/openmetrics-text"], TextFormat::OpenMetrics),
            (&[PROMETHEUS[0]], TextFormat::Plain),
            (&[PROMETHEUS[1]], TextFormat::OpenMetrics),
            (&[PROMETHEUS[2]], TextFormat::OpenMetrics),
            (&[PROMETHEUS[3]], TextFormat::Plain),
        ];
        for (accept, expected) in cases {
            assert_eq!(asked_for(accept), expected, "{accept:?}");
        }
    }
}
