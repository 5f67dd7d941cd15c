//! A worker with short intervals, a handler that the test controls, and a sink that records the events.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use taskqueue_client::{Client, Config, Failure, JsonObject, QueueName, Retries, Route};
use taskqueue_worker::{
    BackoffLimits, Counts, EndReason, Event, EventSink, Handler, HandlerResult, Intervals, RunDir, Settings,
    SpoolSettings, StopMode, TaskRun, Worker,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::server::Server;

/// Only a test that hangs takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Short intervals, so that tests are fast.
pub(crate) fn intervals() -> Intervals {
    Intervals {
        first_heartbeat: millis(20),
        heartbeat: millis(20),
        heartbeat_poll: millis(20),
        heartbeat_retry: millis(5),
        wait: Duration::from_secs(1),
        backoff: BackoffLimits { first: millis(1), longest: millis(10) },
        failure_pause: BackoffLimits { first: millis(20), longest: millis(80) },
        observation: millis(50),
        observation_gap: millis(1),
        output: millis(20),
        output_rewrite: millis(100),
        late_output: Duration::from_secs(1),
        output_at_exit: Duration::from_secs(1),
        outage_settle: Duration::ZERO,
        progress: millis(20),
        telemetry: millis(50),
        idle_reason: Duration::from_secs(3600),
        idle_reason_again: millis(5),
        shutdown_timeout: Duration::from_secs(1),
    }
}

pub(crate) fn settings() -> Settings {
    let (queue, route) = (QueueName::parse("q").unwrap(), Route::parse("default").unwrap());
    Settings { grace: millis(50), intervals: intervals(), ..Settings::new(queue, route) }
}

/// Settings of a worker that ends after so many tasks.
pub(crate) fn for_tasks(count: u64) -> Settings {
    Settings { max_tasks: Some(count), ..settings() }
}

/// Waits until the condition holds.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    let mut look = tokio::time::interval(millis(2));
    let looking = async {
        while !is_so() {
            look.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("timed out");
}

/// A run that waits until the test ends it.
pub(crate) struct WaitingRun {
    pub(crate) run: TaskRun,
    end: oneshot::Sender<HandlerResult>,
}

impl WaitingRun {
    pub(crate) fn end(self, result: HandlerResult) {
        // The worker may have dropped the run meanwhile.
        drop(self.end.send(result));
    }

    pub(crate) fn succeed(self) {
        self.end(empty_success());
    }
}

pub(crate) fn empty_success() -> HandlerResult {
    HandlerResult::Complete(JsonObject::empty())
}

pub(crate) fn failure() -> HandlerResult {
    HandlerResult::Fail(Failure { kind: "ExitCode".into(), message: "exit code 1".into(), traceback: None })
}

struct WaitingHandler(mpsc::UnboundedSender<WaitingRun>);

#[async_trait]
impl Handler for WaitingHandler {
    async fn run(&self, run: TaskRun) -> HandlerResult {
        let (end, ended) = oneshot::channel();
        let _ = self.0.send(WaitingRun { run, end });
        ended.await.unwrap_or(HandlerResult::Stopped)
    }
}

/// Gives every run the same result.
struct FixedHandler(HandlerResult);

#[async_trait]
impl Handler for FixedHandler {
    async fn run(&self, _: TaskRun) -> HandlerResult {
        self.0.clone()
    }
}

/// Records events as text.
#[derive(Default)]
pub(crate) struct RecordedEvents(Mutex<Vec<String>>);

impl RecordedEvents {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl EventSink for RecordedEvents {
    fn on_event(&self, event: &Event<'_>) {
        let words = match event {
            Event::Started { claim, .. } => format!("started {}", claim.task.id),
            Event::Ended { task_id, outcome, .. } => format!("ended {task_id} {outcome:?}"),
            Event::ServerUnreachable(_) => "server unreachable".to_owned(),
            // Every worker that gets so far has it, once.
            Event::Connected => return,
            Event::ServerReachable { .. } => "server reachable".to_owned(),
            Event::EarlierReport { task_id, refused } => format!("earlier report {task_id} {}", refused.is_some()),
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(words);
    }
}

pub(crate) struct TestWorker {
    pub(crate) runs: mpsc::UnboundedReceiver<WaitingRun>,
    pub(crate) stops: watch::Sender<StopMode>,
    pub(crate) events: Arc<RecordedEvents>,
    worker: JoinHandle<(EndReason, Counts)>,
}

impl TestWorker {
    pub(crate) fn start(server: &Server, settings: Settings) -> Self {
        let (started, runs) = mpsc::unbounded_channel();
        Self::with(server, settings, Arc::new(WaitingHandler(started)), runs)
    }

    /// A worker that waits longer for answers than others do, so that a busy machine gives them in time.
    pub(crate) fn patient(server: &Server, settings: Settings, request_timeout: Duration) -> Self {
        let (started, runs) = mpsc::unbounded_channel();
        Self::with_timeout(server, settings, Arc::new(WaitingHandler(started)), runs, request_timeout)
    }

    /// A worker whose every run ends at once with this result.
    pub(crate) fn always(server: &Server, settings: Settings, result: HandlerResult) -> Self {
        let (_, runs) = mpsc::unbounded_channel();
        Self::with(server, settings, Arc::new(FixedHandler(result)), runs)
    }

    pub(crate) fn with(
        server: &Server,
        settings: Settings,
        handler: Arc<dyn Handler>,
        runs: mpsc::UnboundedReceiver<WaitingRun>,
    ) -> Self {
        Self::with_timeout(server, settings, handler, runs, millis(300))
    }

    fn with_timeout(
        server: &Server,
        settings: Settings,
        handler: Arc<dyn Handler>,
        runs: mpsc::UnboundedReceiver<WaitingRun>,
        request_timeout: Duration,
    ) -> Self {
        let mut config = Config::new(&format!("http://{}", server.address)).unwrap();
        (config.retries, config.request_timeout) = (Retries::NONE, request_timeout);
        let client = Client::new(config).unwrap();
        let (stops, receiver) = watch::channel(StopMode::Running);
        let events = Arc::new(RecordedEvents::default());
        let worker = Worker::new(client, settings, handler, Arc::<RecordedEvents>::clone(&events)).unwrap();
        Self { runs, stops, events, worker: tokio::spawn(worker.run(receiver)) }
    }

    /// Starts a worker and waits for its first run.
    pub(crate) async fn running(server: &Server, settings: Settings) -> (Self, WaitingRun) {
        let mut worker = Self::start(server, settings);
        let run = worker.next_run().await;
        (worker, run)
    }

    pub(crate) async fn next_run(&mut self) -> WaitingRun {
        tokio::time::timeout(PATIENCE, self.runs.recv()).await.expect("nothing was run").unwrap()
    }

    /// Waits for an event with this text.
    pub(crate) async fn until_told(&self, text: &str) {
        until(|| self.events.all().iter().any(|event| event.contains(text))).await;
    }

    pub(crate) fn stop(&self, stop: StopMode) {
        self.stops.send_replace(stop);
    }

    pub(crate) async fn stopped(self, stop: StopMode) -> (EndReason, Counts) {
        self.stop(stop);
        self.end().await
    }

    pub(crate) async fn end(self) -> (EndReason, Counts) {
        let Self { worker, stops, .. } = self;
        let end = tokio::time::timeout(PATIENCE, worker).await.expect("the worker does not end").unwrap();
        drop(stops);
        end
    }
}

/// Settings with a spool in this folder.
pub(crate) fn spooling(folder: &tempfile::TempDir) -> Settings {
    let run_dir = RunDir::open(folder.path()).unwrap();
    let spool = Some(SpoolSettings { run_dir, url: "http://here".to_owned() });
    Settings { spool, max_tasks: Some(1), ..settings() }
}
