//! A server over the model store, reached through real sockets, and what its clients send and read.

use std::sync::Arc;
use std::time::Duration;

use taskqueue_core::definition::Definition;
use taskqueue_core::ids::{QueueName, RunId, TaskId};
use taskqueue_core::lifecycle::TaskAction;
use taskqueue_core::selection::TaskSelection;
use taskqueue_core::settings::Retention;
use taskqueue_core::task::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_server::{Config, Limits, Listener, Listeners, run};
use taskqueue_store::command::{ActOnTask, AddOutput, CreateQueue, CreateTask};
use taskqueue_store::conformance::ManualClock;
use taskqueue_store::conformance::model::ModelStore;
use taskqueue_store::{Store, StoreExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

/// Longer than any machine needs.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// A server that runs until it is told to stop.
pub(crate) struct Running {
    pub(crate) address: String,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) running: JoinHandle<()>,
}

/// Runs a server over a store.
pub(crate) async fn run_over(store: Arc<dyn Store>, listen: &str, config: Config) -> Running {
    let listener = Listener::bind(&listen.parse().unwrap(), false).await.unwrap();
    let address = listener.base_url().trim_start_matches("http://").trim_start_matches("unix:").to_owned();
    let (stop, stopped) = oneshot::channel();
    let running = tokio::spawn(async move {
        let shutdown = async { drop(stopped.await) };
        run(Listeners { api: listener, metrics: None }, store, config, || {}, shutdown, std::future::pending())
            .await
            .unwrap();
    });
    Running { address, stop, running }
}

impl Running {
    /// Stops it, and waits for its end.
    pub(crate) async fn end(self) {
        self.stop.send(()).unwrap();
        timeout(LIMIT, self.running).await.unwrap().unwrap();
    }
}

/// The same over the model.
pub(crate) struct Served {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<ModelStore>,
    pub(crate) server: Running,
}

pub(crate) fn queue() -> QueueName {
    QueueName::parse("q").unwrap()
}

pub(crate) fn task_id(n: usize) -> TaskId {
    TaskId::parse(&format!("t_{n:012}")).unwrap()
}

pub(crate) async fn serve(waiting_cap: usize) -> Served {
    serve_with(Config { limits: Limits { waiting_cap, ..Limits::default() }, ..Config::new(None) }).await
}

pub(crate) async fn serve_with(config: Config) -> Served {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1_000_000)));
    let store = Arc::new(ModelStore::new(clock.clone()));
    store.write(CreateQueue { queue: queue(), retention: Retention::default() }).await.unwrap();
    let server = run_over(store.clone(), "127.0.0.1:0", config).await;
    Served { clock, store, server }
}

fn post(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /api/v2/queues/q/tasks/{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{headers}\r\n{body}"
    )
}

/// A claim of run `n` with these header lines, each ended by CRLF.
pub(crate) fn claim(n: usize, headers: &str) -> String {
    post("claim", headers, &format!(r#"{{"route":"default","run_id":"r_{n:012}"}}"#))
}

/// A heartbeat of run `n` for task `n`.
pub(crate) fn heartbeat(n: usize, headers: &str) -> String {
    post(&format!("t_{n:012}/heartbeat"), headers, &format!(r#"{{"run_id":"r_{n:012}"}}"#))
}

/// A read of the output of task `n` with a query and header lines, by GET or HEAD.
pub(crate) fn read_output(method: &str, n: usize, query: &str, headers: &str) -> String {
    format!("{method} /api/v2/queues/q/tasks/t_{n:012}/output{query} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n")
}

pub(crate) const HEALTH: &str = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";
pub(crate) const WAIT: &str = "prefer: wait=50\r\n";

impl Served {
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.server.address).await.unwrap()
    }

    pub(crate) async fn send(&self, request: &str) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    pub(crate) async fn create(&self, n: usize) {
        let new = Box::new(Definition::default().into());
        self.store.write(CreateTask { queue: queue(), id: task_id(n), new }).await.unwrap();
    }

    /// Task `n`, running as run `n`.
    pub(crate) async fn create_running(&self, n: usize) {
        self.create(n).await;
        assert_eq!(status_and_wait(&read(&mut self.send(&claim(n, "")).await).await.0).0, "200");
    }

    pub(crate) async fn cancel(&self, n: usize) {
        self.store.write(ActOnTask { queue: queue(), id: task_id(n), action: TaskAction::Cancel }).await.unwrap();
    }

    /// Waits until so many heartbeats are held. Those whose renewal is still under way count too.
    pub(crate) async fn await_held(&self, count: usize) {
        self.await_count(count, || self.store.waiters().watched_runs().len()).await;
    }

    /// Waits until so many reads of output wait. Those whose second read is still under way count too.
    pub(crate) async fn await_watching(&self, count: usize) {
        self.await_count(count, || self.store.waiters().watched_outputs().len()).await;
    }

    /// Waits until so many claims wait.
    pub(crate) async fn await_waiting(&self, count: usize) {
        self.await_count(count, || self.store.waiters().waiting_routes().first().map_or(0, |line| line.2)).await;
    }

    /// Waits until a number is this.
    pub(crate) async fn await_count(&self, count: usize, current: impl Fn() -> usize) {
        let reached = async {
            while current() != count {
                yield_now().await;
            }
        };
        timeout(LIMIT, reached).await.unwrap_or_else(|_| panic!("{}, not {count}", current()));
    }

    /// What run `n` printed behind so many bytes.
    pub(crate) async fn print(&self, n: usize, offset: u64, text: &str) {
        let run_id = RunId::parse(&format!("r_{n:012}")).unwrap();
        let output = AddOutput { queue: queue(), id: task_id(n), run_id, offset, text: text.into(), most_bytes: 1000 };
        self.store.write(output).await.unwrap();
    }

    pub(crate) async fn count(&self, status: Status) -> u64 {
        let selection = TaskSelection { status: Some(status), ..TaskSelection::default() };
        self.store.count_tasks(&queue(), selection).await.unwrap()
    }
}

/// One answer: its head in lower case, and its body.
pub(crate) async fn read(stream: &mut TcpStream) -> (String, String) {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break end + 4;
        }
        let mut one = [0];
        let count = timeout(LIMIT, stream.read(&mut one)).await.expect("no answer").unwrap();
        assert_eq!(count, 1, "the connection ended: {:?}", String::from_utf8_lossy(&bytes));
        bytes.push(one[0]);
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.unwrap();
    (head, String::from_utf8(body).unwrap())
}

pub(crate) async fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(timeout(LIMIT, stream.read(&mut [0])).await.unwrap(), Ok(0) | Err(_))
}

/// The status and the applied preference.
pub(crate) fn status_and_wait(head: &str) -> (&str, Option<&str>) {
    (&head[9..12], head.lines().find_map(|line| line.strip_prefix("preference-applied: ")))
}
