//! Writes a snapshot in one of the two text formats that Prometheus reads. They differ in the names under which counters are declared, and
//! in the mark of the end. Prometheus names both and prefers OpenMetrics; who names none may be anybody with a browser or `curl`, or a
//! program that knows the older one only (docs/decisions/0060).

use std::borrow::Borrow;
use std::{array, fmt};

use hyper::HeaderMap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::registry::Registry;
use taskqueue_core::activity::Event;
use taskqueue_core::pending_parts::PendingState;
use taskqueue_core::{Status, Timestamp};
use taskqueue_store::histogram::HistogramValues;

use super::labels::{LabelledRoute, in_seconds};
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
    pub(super) bytes: usize,
}

impl MetricsText {
    pub(crate) fn of(snapshot: Snapshot, format: TextFormat) -> Self {
        let (mut registry, mut length) = (Registry::default(), ByteCounter(0));
        registry.register_collector(Box::new(SnapshotCollector { snapshot, format }));
        // Neither this nor writing to memory fails.
        let _ = encode(&mut length, &registry, format);
        Self { registry, format, bytes: length.0 }
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
        out.gauges(&list::BUILD_INFO, [([env!("CARGO_PKG_VERSION")], 1_u64)])?;
        out.gauge(&list::READY, Some(u64::from(self.is_ready)))?;
        out.gauge(&list::FIGURES_UP, Some(u64::from(self.figures.is_some())))?;
        out.gauge(&list::TLS_EXPIRES, self.tls_expires_seconds)
    }

    fn write_requests(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let requests = self.endpoints.iter().flat_map(|endpoint| {
            let statuses = endpoint.statuses.iter();
            statuses.map(|(status, count)| ([endpoint.method, endpoint.path, status], *count))
        });
        out.counters(&list::HTTP_REQUESTS, requests)?;
        let durations = self.endpoints.iter().map(|endpoint| ([endpoint.method, endpoint.path], &endpoint.seconds));
        out.histograms(&list::HTTP_DURATION, durations)?;
        out.counters(&list::HTTP_ERRORS, self.errors.iter().map(|(code, count)| ([*code], *count)))?;
        let states = self
            .connections
            .map(|counts| [(["busy"], counts.open.saturating_sub(counts.idle) as u64), (["idle"], counts.idle as u64)]);
        out.gauges(&list::HTTP_CONNECTIONS, states.into_iter().flatten())?;
        out.gauge(&list::HTTP_CONNECTIONS_LIMIT, self.connections.map(|counts| counts.limit as u64))?;
        let waiting = [["claim"], ["heartbeat"], ["output"]].into_iter().zip(self.waiting.map(|count| count as u64));
        out.gauges(&list::WAITING, waiting)?;
        out.gauge(&list::WAITING_LIMIT, Some(self.waiting_limit as u64))
    }

    fn write_queues(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let queues = || self.figures.iter().flat_map(|figures| &figures.labelled.queues);
        let tasks = queues().flat_map(|(queue, shown)| {
            Status::ALL.into_iter().zip(shown.tasks).map(|(status, count)| ([&**queue, status.as_str()], count))
        });
        out.gauges(&list::TASKS, tasks)?;
        let pending = queues().flat_map(|(queue, shown)| {
            let states = PendingState::ALL.into_iter().zip(shown.pending.into_iter().flatten());
            states.map(|(state, count)| ([&**queue, state.as_str()], count))
        });
        out.gauges(&list::PENDING, pending)?;
        let limits = || queues().filter_map(|(queue, shown)| Some(([&**queue], shown.limits?)));
        out.gauges(&list::QUEUE_PAUSED, limits().map(|(queue, limits)| (queue, u64::from(limits.is_paused))))?;
        out.gauges(&list::QUEUE_LIMIT, limits().filter_map(|(queue, limits)| Some((queue, limits.max_running?))))?;
        self.write_routes(out)
    }

    fn write_routes(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let routes = || {
            let routes = self.figures.iter().flat_map(|figures| &figures.labelled.routes);
            routes.map(|((queue, route), shown)| ([&**queue, &**route], shown))
        };
        let limits = routes().filter_map(|(labels, shown)| Some((labels, shown.running_limit?)));
        out.gauges(&list::ROUTE_LIMIT, limits)?;
        let tasks = routes().flat_map(|([queue, route], LabelledRoute { figures, .. })| {
            [([queue, route, "pending"], figures.pending), ([queue, route, "running"], figures.running)]
        });
        out.gauges(&list::ROUTE_TASKS, tasks)?;
        let now = self.figures.as_ref().map(|known| known.now);
        let age = |since: Option<Timestamp>| Some((now?.as_micros() - since?.as_micros()).max(0) as f64 / 1e6);
        let pending = routes().filter_map(|(labels, shown)| Some((labels, age(shown.figures.oldest_pending)?)));
        out.gauges(&list::OLDEST_PENDING, pending)?;
        let claimable = routes().filter_map(|(labels, shown)| Some((labels, age(shown.oldest_claimable)?)));
        out.gauges(&list::OLDEST_CLAIMABLE, claimable)?;
        let workers = routes().flat_map(|([queue, route], LabelledRoute { figures, .. })| {
            [([queue, route, "idle"], figures.workers_idle), ([queue, route, "busy"], figures.workers_busy)]
        });
        out.gauges(&list::WORKERS, workers)
    }

    fn write_events(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let events = self.events.iter().flat_map(|(queue, activity)| {
            Event::ALL.map(|event| ([queue.as_str(), event.as_str()], activity.counts.of(event)))
        });
        out.counters(&list::TASK_EVENTS, events)?;
        let queues = || self.events.iter().map(|(queue, activity)| ([queue.as_str()], activity));
        out.histograms(&list::TASK_WAIT, queues().map(|(queue, activity)| (queue, in_seconds(&activity.waits))))?;
        out.histograms(&list::TASK_RUN, queues().map(|(queue, activity)| (queue, in_seconds(&activity.runs))))
    }

    fn write_storage(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let storage = &self.storage;
        out.histograms(&list::WRITER_COMMANDS, [([], &storage.writer.commands)])?;
        out.histograms(&list::WRITER_COMMIT, [([], &storage.writer.commit_seconds)])?;
        out.histograms(&list::WRITER_SYNC, [([], &storage.writer.sync_seconds)])?;
        out.gauge(&list::WRITER_QUEUE, Some(storage.queued_writes as u64))?;
        out.gauge(&list::WRITER_CAPACITY, Some(storage.queue_capacity as u64))?;
        out.counters(&list::WRITER_FAILURES, [([], storage.writer.failures)])?;
        out.gauge(&list::READERS, Some(storage.readers as u64))?;
        out.gauge(&list::READERS_IN_USE, Some(storage.readers_in_use as u64))?;
        out.gauge(&list::LONG_READS, Some(storage.long_reads as u64))?;
        out.gauge(&list::DATABASE_BYTES, self.figures.as_ref().and_then(|figures| figures.database_bytes))
    }

    fn write_process(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let budgets = || self.budgets.iter();
        out.gauges(&list::BUDGET, budgets().map(|budget| ([budget.part], budget.total_bytes as u64)))?;
        out.gauges(&list::BUDGET_USED, budgets().map(|budget| ([budget.part], budget.used_bytes as u64)))?;
        out.gauge(&list::MEMORY_LIMIT, self.memory_limit_bytes)?;
        out.counters(&list::LOG_LINES_LOST, [([], self.log_lines_lost)])?;
        let process = &self.process;
        out.counters(&list::CPU, process.cpu_seconds.map(|seconds| ([], seconds)))?;
        out.gauge(&list::RESIDENT, process.resident_bytes)?;
        out.gauge(&list::VIRTUAL, process.virtual_bytes)?;
        out.gauge(&list::OPEN_FDS, process.open_fds)?;
        out.gauge(&list::MAX_FDS, process.max_fds)?;
        out.gauge(&list::START_TIME, process.start_time_seconds)
    }
}

impl MetricsWriter<'_> {
    /// Writes a metric without labels, whose series is left out if its value is not known.
    fn gauge<V: EncodeGaugeValue>(&mut self, metric: &Metric, value: Option<V>) -> fmt::Result {
        self.gauges(metric, value.map(|value| ([], value)))
    }

    fn gauges<'v, const N: usize, V: EncodeGaugeValue>(
        &mut self,
        metric: &Metric,
        series: impl IntoIterator<Item = ([&'v str; N], V)>,
    ) -> fmt::Result {
        self.write(metric, series, |encoder, value| encoder.encode_gauge(&value))
    }

    fn counters<'v, const N: usize, V: EncodeCounterValue + EncodeGaugeValue>(
        &mut self,
        metric: &Metric,
        series: impl IntoIterator<Item = ([&'v str; N], V)>,
    ) -> fmt::Result {
        let format = self.format;
        self.write(metric, series, |encoder, count| match format {
            TextFormat::OpenMetrics => encoder.encode_counter::<NoLabelSet, _, f64>(&count, None),
            // A value under the name that was declared.
            TextFormat::Plain => encoder.encode_gauge(&count),
        })
    }

    fn histograms<'v, const N: usize, V: Borrow<HistogramValues>>(
        &mut self,
        metric: &Metric,
        series: impl IntoIterator<Item = ([&'v str; N], V)>,
    ) -> fmt::Result {
        self.write(metric, series, |encoder, counted| {
            let counted: &HistogramValues = counted.borrow();
            encoder.encode_histogram::<NoLabelSet>(counted.sum, counted.count(), &counted.buckets, None)
        })
    }

    /// Writes the head of a metric and its series, each by the values of its labels in the order of the list. OpenMetrics declares a
    /// counter without `_total`, and the encoder appends it to each series; the plain text declares it with its whole name.
    fn write<'v, const N: usize, V>(
        &mut self,
        metric: &Metric,
        series: impl IntoIterator<Item = ([&'v str; N], V)>,
        write: impl Fn(&mut MetricEncoder<'_>, V) -> fmt::Result,
    ) -> fmt::Result {
        debug_assert_eq!(metric.labels.len(), N, "as many values as labels");
        let name = match self.format {
            TextFormat::OpenMetrics => metric.name.strip_suffix("_total").unwrap_or(metric.name),
            TextFormat::Plain => metric.name,
        };
        let mut encoder = self.encoder.encode_descriptor(name, metric.help, None, metric.kind)?;
        for (values, value) in series {
            let labels: [_; N] =
                array::from_fn(|place| (metric.labels.get(place).copied().unwrap_or_default(), values[place]));
            match N {
                // Otherwise there would be empty brackets.
                0 => write(&mut encoder, value)?,
                _ => write(&mut encoder.encode_family(&labels)?, value)?,
            }
        }
        Ok(())
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
