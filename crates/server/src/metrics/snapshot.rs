//! All that is shown by one scrape, and where it is asked for: counts of this process, the figures of the system about it, and
//! the database. What has to be asked of the database has a time limit: monitoring must tell what it can when the database is
//! what is broken.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use parking_lot::Mutex;
use taskqueue_core::activity::Activity;
use taskqueue_core::stats::PendingDetail;
use taskqueue_core::{QueueName, RouteSelection, Timestamp};
use taskqueue_store::figures::{ProcessFigures, StoreFigures, read_figures};
use taskqueue_store::transaction::QueueKey;
use taskqueue_store::{Store, StoreError, StoreExt};
use tokio::sync;
use tokio::time::{Instant, timeout};

use super::labels::{EventCounts, LabelledFigures, Labelling, RouteNames, named_queues};
use super::requests::{EndpointValues, RequestCounts};
use super::text::{MetricsText, TextFormat};
use crate::accept::{ConnectionCounts, Connections};
use crate::error::ApiError;
use crate::memory_budget::{BudgetUse, Budgets};
use crate::memory_plan::{kib_line, soft_limit};
use crate::readiness::Readiness;
use crate::tls::Tls;

/// How long a scrape is given to all who ask.
const FRESH: Duration = Duration::from_secs(1);
/// How long the database may take. Prometheus waits 10 seconds for a scrape unless it is told otherwise.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Queues after which new routes are looked for by name in those that follow.
const QUEUES_AT_ONCE: usize = 32;

/// The counts behind metrics, and what is remembered between two scrapes.
#[derive(Default)]
pub(crate) struct Metrics {
    pub(crate) requests: RequestCounts,
    sources: MetricSources,
    memory: Mutex<ScrapeMemory>,
    /// At most one of each format. Held while one is computed.
    pub(super) last: sync::Mutex<Vec<Scrape>>,
}

/// The values that belong to the process and not to the state of the server.
#[derive(Default)]
pub(crate) struct MetricSources {
    /// Weak: connections hold the metrics, and end with their owner.
    pub(crate) connections: Weak<Connections>,
    pub(crate) waiting_limit: usize,
    pub(crate) memory_limit_bytes: Option<u64>,
    pub(crate) log_lines_lost: Option<fn() -> u64>,
    /// Whose certificate clients of the API are shown.
    pub(crate) tls: Option<Tls>,
}

/// The names and counts of the last scrape.
#[derive(Default)]
struct ScrapeMemory {
    routes: RouteNames,
    events: EventCounts,
}

/// A text that was written, and when.
pub(super) struct Scrape {
    pub(super) format: TextFormat,
    pub(super) at: Instant,
    pub(super) text: Bytes,
}

impl Metrics {
    pub(crate) fn new(sources: MetricSources) -> Self {
        Self { sources, ..Self::default() }
    }

    /// Connections that are open now, as far as that is known.
    pub(crate) fn open_connections(&self) -> usize {
        self.sources.connections.upgrade().map_or(0, |connections| connections.counts().open)
    }

    /// Returns the text of all metrics, not older than a second. What it takes of the memory for answers is freed when the last client
    /// has got it and it is not given to others any more.
    pub(crate) async fn scrape(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        readiness: &Readiness,
        budgets: &Arc<Budgets>,
        format: TextFormat,
    ) -> Result<Bytes, ApiError> {
        let mut last = self.last.lock().await;
        last.retain(|scrape| scrape.at.elapsed() < FRESH);
        if let Some(scrape) = last.iter().find(|scrape| scrape.format == format) {
            return Ok(scrape.text.clone());
        }
        let (figures, is_ready) = self.ask(&**store, readiness).await;
        let (metrics, store, shared_budgets) = (Arc::clone(self), Arc::clone(store), Arc::clone(budgets));
        let measure =
            move || MetricsText::of(Snapshot::take(figures, is_ready, &metrics, &*store, &shared_budgets), format);
        // It panics only where there is a bug, which is logged.
        let text = tokio::task::spawn_blocking(measure).await.map_err(|_| ApiError::internal(""))?;
        let reservation = budgets.answers.reserve(text.bytes).await?;
        let text = tokio::task::spawn_blocking(move || text.write()).await.map_err(|_| ApiError::internal(""))?;
        let text = reservation.attach_to(text);
        last.push(Scrape { format, at: Instant::now(), text: text.clone() });
        Ok(text)
    }

    /// Asks the database for its figures, and whether it works. There are no figures if they do not come in time.
    async fn ask(&self, store: &dyn Store, readiness: &Readiness) -> (Option<DatabaseFigures>, bool) {
        let names = self.memory.lock().routes.clone();
        let figures = timeout(DATABASE_TIMEOUT, DatabaseFigures::of(store, names));
        let (figures, ready) = tokio::join!(figures, readiness.check(store));
        if figures.is_err() {
            tracing::warn!("the database did not give its figures in time; the metrics are without them");
        }
        (figures.ok().and_then(Result::ok), ready.is_ok())
    }

    /// Returns the figures and the events of the queues, by label.
    fn labelled(
        &self,
        figures: Option<DatabaseFigures>,
        store: &dyn Store,
    ) -> (Option<ShownFigures>, BTreeMap<String, Activity>) {
        let mut memory = self.memory.lock();
        let totals = store.activity().totals();
        let Some(DatabaseFigures { queues, shown, routes }) = figures else {
            return (None, memory.events.update(totals, None));
        };
        memory.routes = routes;
        let events = memory.events.update(totals, Some(named_queues(&queues)));
        let keys: Vec<_> = queues.iter().map(|(key, _)| *key).collect();
        store.activity().forget_totals_except(&keys);
        (Some(shown), events)
    }
}

/// The values of all metrics at one moment.
pub(crate) struct Snapshot {
    pub(crate) is_ready: bool,
    pub(crate) tls_expires_seconds: Option<f64>,
    pub(crate) endpoints: Vec<EndpointValues>,
    pub(crate) errors: Vec<(&'static str, u64)>,
    pub(crate) connections: Option<ConnectionCounts>,
    pub(crate) waiting: [usize; 3],
    pub(crate) waiting_limit: usize,
    /// `None` if the database did not give them.
    pub(crate) figures: Option<ShownFigures>,
    pub(crate) events: BTreeMap<String, Activity>,
    pub(crate) storage: ProcessFigures,
    pub(crate) budgets: [BudgetUse; 4],
    pub(crate) memory_limit_bytes: Option<u64>,
    pub(crate) log_lines_lost: u64,
    pub(crate) process: ProcessUse,
}

/// The figures of the database by label.
pub(crate) struct ShownFigures {
    pub(crate) now: Timestamp,
    pub(crate) labelled: LabelledFigures,
    pub(crate) database_bytes: Option<u64>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Snapshot(..)")
    }
}

/// The figures of the database, and whose they are.
struct DatabaseFigures {
    /// All queues, in the order of their creation.
    queues: Vec<(QueueKey, QueueName)>,
    shown: ShownFigures,
    routes: RouteNames,
}

impl DatabaseFigures {
    /// Reads some queues at a time, and holds of each what it adds to the labels.
    async fn of(store: &dyn Store, names: RouteNames) -> Result<Self, StoreError> {
        let queues = store.list_queue_keys().await?;
        let storage = store.figures(&[], &RouteSelection::NONE, PendingDetail::Number).await?;
        let (now, database_bytes) = (storage.now, storage.database_bytes);
        let keys: Vec<QueueKey> = queues.iter().map(|(key, _)| *key).collect();
        let mut labelling = Labelling::new(&queues, names);
        for part in keys.chunks(QUEUES_AT_ONCE) {
            let routes = labelling.routes();
            let add = |read: StoreFigures| read.queues.iter().for_each(|(key, figures)| labelling.add(*key, figures));
            read_figures(store, part, &routes, PendingDetail::ByState, add).await?;
        }
        let (labelled, routes) = labelling.finish();
        Ok(Self { queues, shown: ShownFigures { now, labelled, database_bytes }, routes })
    }
}

impl Snapshot {
    /// Reads files of the system, so not on an async thread.
    fn take(
        figures: Option<DatabaseFigures>,
        is_ready: bool,
        metrics: &Metrics,
        store: &dyn Store,
        budgets: &Budgets,
    ) -> Self {
        let (figures, events) = metrics.labelled(figures, store);
        Self {
            is_ready,
            tls_expires_seconds: metrics.sources.tls.as_ref().map(|tls| tls.expires_in_seconds(SystemTime::now())),
            endpoints: metrics.requests.endpoints(),
            errors: metrics.requests.errors(),
            connections: metrics.sources.connections.upgrade().map(|connections| connections.counts()),
            waiting: store.waiters().counts(),
            waiting_limit: metrics.sources.waiting_limit,
            figures,
            events,
            storage: store.process_figures(),
            budgets: budgets.in_use(),
            memory_limit_bytes: metrics.sources.memory_limit_bytes,
            log_lines_lost: metrics.sources.log_lines_lost.map_or(0, |lost| lost()),
            process: ProcessUse::read(),
        }
    }
}

/// In which `/proc` counts time: 100 a second, on every architecture that this program is built for.
const TICKS_PER_SECOND: f64 = 100.0;

/// The figures of a process, as far as the system shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessUse {
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) virtual_bytes: Option<u64>,
    pub(crate) open_fds: Option<u64>,
    pub(crate) max_fds: Option<u64>,
    pub(crate) start_time_seconds: Option<f64>,
}

impl ProcessUse {
    /// Reads the figures of this process now.
    pub(crate) fn read() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let (status, stat) = (read("/proc/self/status"), read("/proc/self/stat"));
        Self {
            cpu_seconds: cpu_seconds(&stat),
            resident_bytes: kib_line(&status, "VmRSS:"),
            virtual_bytes: kib_line(&status, "VmSize:"),
            // One is the descriptor of the listing itself.
            open_fds: fs::read_dir("/proc/self/fd").ok().map(|entries| (entries.count() as u64).saturating_sub(1)),
            max_fds: soft_limit(&read("/proc/self/limits"), "Max open files"),
            start_time_seconds: start_time_seconds(&stat, &read("/proc/stat")),
        }
    }
}

/// Returns the memory of this process now.
pub(crate) fn resident_bytes() -> Option<u64> {
    kib_line(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// Returns a field of `/proc/self/stat` by its number in proc(5). The second one is a name in brackets, which may hold anything.
fn stat_field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((stat_field(stat, 14)? + stat_field(stat, 15)?) / TICKS_PER_SECOND)
}

/// Returns when the process began. The start is told since the boot, and `btime` of `/proc/stat` is the time of the boot.
fn start_time_seconds(stat: &str, system: &str) -> Option<f64> {
    let boot: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + stat_field(stat, 22)? / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "42 (a) b (c) S 1 42 42 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 9 0 250 1000 7 18446744073709551615";

    #[test]
    fn times_are_read_behind_a_name_with_brackets() {
        assert_eq!(cpu_seconds(STAT), Some(2.0));
        assert_eq!(start_time_seconds(STAT, "cpu 1 2\nbtime 1000\nctxt 5\n"), Some(1_002.5));
        assert_eq!((cpu_seconds(""), start_time_seconds(STAT, "")), (None, None));
    }

    #[test]
    fn memory_is_read() {
        let status = "Name:\tx\nVmSize:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!((kib_line(status, "VmRSS:"), kib_line(status, "VmSwap:")), (Some(1 << 20), None));
    }

    #[test]
    fn this_process_has_all_figures() {
        let process = ProcessUse::read();
        assert!(process.resident_bytes.unwrap() > 100_000 && process.virtual_bytes > process.resident_bytes);
        assert!(process.open_fds.unwrap() >= 3 && process.cpu_seconds.unwrap() >= 0.0);
        assert!(process.start_time_seconds.unwrap() > 1.6e9);
    }
}
