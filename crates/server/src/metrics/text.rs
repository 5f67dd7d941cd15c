//! Writes a snapshot in the OpenMetrics text format, which Prometheus reads.

use std::{array, fmt};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::registry::Registry;
use taskqueue_core::activity::Event;
use taskqueue_core::status::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_store::histogram::HistogramValues;

use super::list::{self, Metric};
use super::snapshot::Snapshot;

/// The media type of what `write` gives.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The whole text of a snapshot, which is measured before it is written: with many names it has megabytes.
pub(crate) struct Text {
    /// Holds this one snapshot, and nothing is global.
    registry: Registry,
    bytes: usize,
}

impl Text {
    pub(crate) fn of(snapshot: Snapshot) -> Self {
        let (mut registry, mut length) = (Registry::default(), Length(0));
        registry.register_collector(Box::new(snapshot));
        // Neither this nor writing to memory fails.
        let _ = text::encode(&mut length, &registry);
        Self { registry, bytes: length.0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn write(self) -> Vec<u8> {
        let mut out = String::with_capacity(self.bytes);
        let _ = text::encode(&mut out, &self.registry);
        out.into_bytes()
    }
}

/// How many bytes were written.
struct Length(usize);

impl fmt::Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let out = &mut encoder;
        self.write_server(out)?;
        self.write_requests(out)?;
        self.write_queues(out)?;
        self.write_events(out)?;
        self.write_storage(out)?;
        self.write_process(out)
    }
}

impl Snapshot {
    fn write_server(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        Series::begin(out, &list::BUILD_INFO)?.gauge([env!("CARGO_PKG_VERSION")], 1_u64)?;
        Series::begin(out, &list::READY)?.gauge([], u64::from(self.is_ready))?;
        Series::begin(out, &list::FIGURES_UP)?.gauge([], u64::from(self.figures.is_some()))
    }

    fn write_requests(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
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

    fn write_queues(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let queues = || self.figures.iter().flat_map(|figures| &figures.labelled.queues);
        let routes = || self.figures.iter().flat_map(|figures| &figures.labelled.routes);
        let mut tasks = Series::begin(out, &list::TASKS)?;
        for (queue, counts) in queues() {
            for (status, count) in Status::ALL.into_iter().zip(counts) {
                tasks.gauge([queue, status.as_str()], *count)?;
            }
        }
        let mut tasks = Series::begin(out, &list::ROUTE_TASKS)?;
        for ((queue, route), figures) in routes() {
            tasks.gauge([queue, route, "pending"], figures.pending)?;
            tasks.gauge([queue, route, "running"], figures.running)?;
        }
        let mut oldest = Series::begin(out, &list::OLDEST_PENDING)?;
        for ((queue, route), figures) in routes() {
            if let (Some(since), Some(now)) = (figures.oldest_pending, self.figures.as_ref().map(|known| known.now)) {
                oldest.gauge([queue, route], seconds_between(since, now))?;
            }
        }
        let mut workers = Series::begin(out, &list::WORKERS)?;
        for ((queue, route), figures) in routes() {
            workers.gauge([queue, route, "idle"], figures.workers_idle)?;
            workers.gauge([queue, route, "busy"], figures.workers_busy)?;
        }
        Ok(())
    }

    fn write_events(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
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

    fn write_storage(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
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

    fn write_process(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
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
    labels: &'static [&'static str],
}

impl<'a> Series<'a> {
    /// Writes the head of a metric. The encoder itself appends `_total` to the names of counters.
    fn begin(out: &'a mut DescriptorEncoder<'_>, metric: &'a Metric) -> Result<Self, fmt::Error> {
        let name = metric.name.strip_suffix("_total").unwrap_or(metric.name);
        let encoder = out.encode_descriptor(name, metric.help, None, metric.kind)?;
        Ok(Self { encoder, labels: metric.labels })
    }

    fn counter<const N: usize>(&mut self, values: [&str; N], count: impl EncodeCounterValue) -> fmt::Result {
        self.one(values, |encoder| encoder.encode_counter::<NoLabelSet, _, f64>(&count, None))
    }

    fn gauge<const N: usize>(&mut self, values: [&str; N], value: impl EncodeGaugeValue) -> fmt::Result {
        self.one(values, |encoder| encoder.encode_gauge(&value))
    }

    /// A gauge without labels, left out if it is not known.
    fn gauge_if_known(&mut self, value: Option<impl EncodeGaugeValue>) -> fmt::Result {
        value.map_or(Ok(()), |value| self.gauge([], value))
    }

    fn histogram<const N: usize>(&mut self, values: [&str; N], counted: &HistogramValues) -> fmt::Result {
        let HistogramValues { buckets, sum } = counted;
        self.one(values, |encoder| encoder.encode_histogram::<NoLabelSet>(*sum, counted.count(), buckets, None))
    }

    /// One series, by the values of its labels in the order of the list.
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
