//! A worker with short intervals, a handler that does what the test says, and ears that remember.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use taskqueue_client::{Client, Config, Failure, JsonObject, QueueName, Retries, Route};
use taskqueue_worker::{
    Counts, End, Event, Handler, Intervals, Listener, Outcome, Pauses, Run, RunDir, Settings, SpoolSettings, Stop,
    Worker,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::server::Server;

/// Longer than anything here takes, unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Intervals that no test has to wait for.
pub(crate) fn pace() -> Intervals {
    Intervals {
        heartbeat: millis(20),
        heartbeat_retry: millis(5),
        wait: Duration::from_secs(1),
        pauses: Pauses { first: millis(1), longest: millis(10) },
        observation: millis(50),
        observation_gap: millis(1),
        farewell: Duration::from_secs(1),
    }
}

pub(crate) fn settings() -> Settings {
    let (queue, route) = (QueueName::parse("q").unwrap(), Route::parse("default").unwrap());
    Settings { grace: millis(50), pace: pace(), ..Settings::new(queue, route) }
}

/// Waits for something that comes soon.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    let mut look = tokio::time::interval(millis(2));
    let looking = async {
        while !is_so() {
            look.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("it never came");
}

/// A run that waits for the test to say how it ends.
pub(crate) struct Waiting {
    pub(crate) run: Run,
    end: oneshot::Sender<Outcome>,
}

impl Waiting {
    pub(crate) fn end(self, outcome: Outcome) {
        // The worker may have dropped the run meanwhile.
        drop(self.end.send(outcome));
    }

    pub(crate) fn succeed(self) {
        self.end(Outcome::Complete(JsonObject::empty()));
    }
}

pub(crate) fn failure() -> Outcome {
    Outcome::Fail(Failure { kind: "ExitCode".into(), message: "exit code 1".into(), traceback: None })
}

struct Asking(mpsc::UnboundedSender<Waiting>);

#[async_trait]
impl Handler for Asking {
    async fn run(&self, run: Run) -> Outcome {
        let (end, ended) = oneshot::channel();
        let _ = self.0.send(Waiting { run, end });
        ended.await.unwrap_or(Outcome::Stopped)
    }
}

/// Does the same with every run, and counts them.
struct Always(Outcome);

#[async_trait]
impl Handler for Always {
    async fn run(&self, _: Run) -> Outcome {
        self.0.clone()
    }
}

/// Remembers what was told, as words.
#[derive(Default)]
pub(crate) struct Ears(Mutex<Vec<String>>);

impl Ears {
    pub(crate) fn heard(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Listener for Ears {
    fn hear(&self, event: &Event<'_>) {
        let words = match event {
            Event::Started { claim, .. } => format!("started {}", claim.task.id),
            Event::Ended { task_id, ending, .. } => format!("ended {task_id} {ending:?}"),
            Event::OutOfContact(_) => "out of contact".to_owned(),
            Event::InContact => "in contact".to_owned(),
            Event::LeftOver { task_id, refused } => format!("left over {task_id} {}", refused.is_some()),
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(words);
    }
}

/// A worker at work.
pub(crate) struct Scene {
    pub(crate) runs: mpsc::UnboundedReceiver<Waiting>,
    pub(crate) stops: watch::Sender<Stop>,
    pub(crate) ears: Arc<Ears>,
    worker: JoinHandle<(End, Counts)>,
}

impl Scene {
    pub(crate) fn start(server: &Server, settings: Settings) -> Self {
        let (asking, runs) = mpsc::unbounded_channel();
        Self::with(server, settings, Arc::new(Asking(asking)), runs)
    }

    /// A worker whose every run ends so at once.
    pub(crate) fn always(server: &Server, settings: Settings, outcome: Outcome) -> Self {
        let (_, runs) = mpsc::unbounded_channel();
        Self::with(server, settings, Arc::new(Always(outcome)), runs)
    }

    pub(crate) fn with(
        server: &Server,
        settings: Settings,
        handler: Arc<dyn Handler>,
        runs: mpsc::UnboundedReceiver<Waiting>,
    ) -> Self {
        let config = Config::new(&format!("http://{}", server.address)).unwrap();
        let client = Client::new(config.retries(Retries::NONE).request_timeout(millis(300))).unwrap();
        let (stops, told) = watch::channel(Stop::Go);
        let ears = Arc::new(Ears::default());
        let worker = Worker::new(client, settings, handler, Arc::<Ears>::clone(&ears)).unwrap();
        Self { runs, stops, ears, worker: tokio::spawn(worker.run(told)) }
    }

    pub(crate) async fn next_run(&mut self) -> Waiting {
        tokio::time::timeout(PATIENCE, self.runs.recv()).await.expect("nothing was run").unwrap()
    }

    pub(crate) fn stop(&self, stop: Stop) {
        self.stops.send_replace(stop);
    }

    /// The end of the worker, which comes soon.
    pub(crate) async fn end(self) -> (End, Counts) {
        let Self { worker, stops, .. } = self;
        let end = tokio::time::timeout(PATIENCE, worker).await.expect("the worker does not end").unwrap();
        drop(stops);
        end
    }
}

/// Settings whose reports are kept in this folder.
pub(crate) fn spooling(folder: &tempfile::TempDir) -> Settings {
    let run_dir = RunDir::open(folder.path()).unwrap();
    let spool = Some(SpoolSettings { run_dir, url: "http://here".to_owned() });
    Settings { spool, max_tasks: Some(1), ..settings() }
}
