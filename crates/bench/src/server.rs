//! Servers as child processes, on a port of their own choice, and what is prepared in them: tasks that are pending, that wait, or that
//! have ended.

use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use taskqueue_test_postgres::{Database, patient};
use tempfile::TempDir;

use crate::Result;
use crate::client::{Client, Endpoint, trusting};
use crate::figures::progress;
use crate::request::{Numbers, TASKS};
use crate::request::{Batch, OTHER, Operation, QUEUE, tasks};
use crate::usage::Usage;

/// As many items as a batch may have.
const BATCH: u64 = 1_000;
/// Connections that keep a server busy, with batches and with single requests.
const CONNECTIONS: usize = 4;
const CONNECTIONS_WITHOUT_BATCHES: usize = 64;
/// How many tasks are created at a time before they are claimed and completed.
const CHUNK: u64 = 100_000;
/// How long a chain is: as long as the stages of a long experiment.
const CHAIN: u64 = 10;
/// Before this no delayed task can be claimed.
const FAR: &str = r#","not_before":"2100-01-01T00:00:00Z""#;

/// A child process that ends with its owner.
#[derive(Debug)]
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Where a server keeps what it has; removed after the last server on it has ended.
#[derive(Clone)]
pub(crate) enum Storage {
    Folder(Rc<TempDir>),
    Postgres(Rc<Database>),
}

/// What is in a server before something is measured; so many tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pile {
    Finished(u64),
    /// Failed for good.
    Failed(u64),
    Delayed(u64),
    /// Each but the first of ten waits for another.
    Chained(u64),
    Pending(u64),
    /// Pending, spread over so many queues of their own.
    Spread(u64, u64),
    /// None, but finished tasks are deleted after a second.
    Retention,
}

pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    pub(crate) numbers: Rc<Numbers>,
    /// How long it took from its start to its first healthy answer.
    pub(crate) healthy_after: Duration,
    /// Pending tasks that cannot be claimed.
    waiting: u64,
    process: Process,
    binary: PathBuf,
    storage: Option<Storage>,
}

impl Server {
    /// Starts the server that is measured, with the queues of all scenarios; it may be told how much memory it may use.
    pub(crate) async fn start(binary: &Path, storage: Storage, more: &[&str], memory: Option<u64>) -> Result<Self> {
        let mut command = Command::new(binary);
        if let Some(bytes) = memory {
            command = Command::new("prlimit");
            command.arg(format!("--rss={bytes}")).arg("--").arg(binary);
        }
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "error"]).args(more);
        match &storage {
            Storage::Folder(folder) => command.arg("--database").arg(folder.path().join("bench.db")),
            Storage::Postgres(database) => command.arg("--database").arg(patient(&database.url())),
        };
        command.args(["--queue", QUEUE, "--queue", OTHER]);
        let server = Self::spawn(command, Some(storage)).await?;
        Ok(Self { binary: binary.to_owned(), ..server })
    }

    /// Starts this program again as the reference.
    pub(crate) async fn reference() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("reference");
        Self::spawn(command, None).await
    }

    async fn spawn(mut command: Command, storage: Option<Storage>) -> Result<Self> {
        let begin = Instant::now();
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = Process(spawned.map_err(|error| format!("{command:?} cannot be started: {error}"))?);
        let mut line = String::new();
        if let Some(stdout) = &mut process.0.stdout {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let silent = || format!("{command:?} does not say where it listens; see its log lines above");
        let (scheme, address) = line.trim().split_once("://").ok_or_else(silent)?;
        let tls = match (&storage, scheme) {
            (Some(Storage::Folder(folder)), "https") => Some(trusting(&folder.path().join("bench.db.tls/cert.pem"))?),
            _ => None,
        };
        let endpoint = Endpoint { address: address.parse()?, tls };
        while Client::connect(&endpoint).await?.get("/health").await.is_err() {
            tokio::task::yield_now().await;
        }
        Ok(Self { healthy_after: begin.elapsed(), storage, ..Self::of(process, endpoint) })
    }

    /// A process that listens there already.
    pub(crate) fn of(process: Process, endpoint: Endpoint) -> Self {
        let (numbers, healthy_after, binary) = (Rc::default(), Duration::ZERO, PathBuf::new());
        Self { endpoint, numbers, healthy_after, waiting: 0, process, binary, storage: None }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        Ok(Usage::of(self.pid())?)
    }

    /// The folder of its database, if it has one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match &self.storage {
            Some(Storage::Folder(folder)) => Some(folder.path()),
            _ => None,
        }
    }

    /// Stops it and starts it again on what it left.
    pub(crate) async fn restart(mut self) -> Result<Self> {
        Command::new("kill").arg(self.pid().to_string()).status()?;
        self.process.0.wait()?;
        self.another().await
    }

    /// Starts another one on the same database. Only PostgreSQL serves two at a time.
    pub(crate) async fn another(&self) -> Result<Self> {
        let storage = self.storage.clone().ok_or("nothing was stored")?;
        let (numbers, waiting) = (self.numbers.clone(), self.waiting);
        Ok(Self { numbers, waiting, ..Self::start(&self.binary, storage, &[], None).await? })
    }

    pub(crate) async fn client(&self) -> Result<Client> {
        Ok(Client::connect(&self.endpoint).await?)
    }

    /// How many tasks of the load's queue have this status.
    pub(crate) async fn count(&self, status: &str) -> Result<u64> {
        let answer = self.client().await?.get(&tasks(QUEUE, &format!("/count?status={status}"))).await?;
        Ok(answer.json()["count"].as_u64().ok_or_else(|| answer.excerpt())?)
    }

    /// Returns whether the server takes batches. One that is too old to say what it can do has none.
    pub(crate) async fn has_batches(&self) -> Result<bool> {
        let capabilities = self.client().await?.get("/api/v2/capabilities").await;
        Ok(capabilities.is_ok_and(|answer| answer.text().contains("\"batch\"")))
    }

    /// Creates so many tasks with these members; their numbers. One by one, and without these members, if the server has no batches.
    pub(crate) async fn create(&self, queue: &str, count: u64, more: &dyn Fn(u64) -> String) -> Result<Range<u64>> {
        let first = self.numbers.tasks_so_far();
        let end = first + count;
        let has_batches = self.has_batches().await?;
        let create = async || -> Result<()> {
            let mut client = self.client().await?;
            while let left @ 1.. = end.saturating_sub(self.numbers.tasks_so_far()) {
                if !has_batches {
                    client.operate(Operation::Create, queue, (self.numbers.next_task(), 0)).await?;
                    continue;
                }
                let items: Vec<(u64, u64)> = (0..left.min(BATCH)).map(|_| (self.numbers.next_task(), 0)).collect();
                client.batch(Batch::Create(more), queue, &items).await?;
            }
            Ok(())
        };
        let connections = if has_batches { CONNECTIONS } else { CONNECTIONS_WITHOUT_BATCHES };
        try_join_all((0..connections).map(|_| create())).await?;
        Ok(first..end)
    }

    /// Creates tasks for the load.
    pub(crate) async fn fill(&self, count: u64) -> Result<Range<u64>> {
        self.create(QUEUE, count, &|_| String::new()).await
    }

    /// Claims and completes, or fails, until nothing is pending.
    async fn end_all(&self, end: Batch<'static>) -> Result<()> {
        let end_all = async || -> Result<()> {
            let mut client = self.client().await?;
            loop {
                let runs: Vec<(u64, u64)> = (0..BATCH).map(|_| (0, self.numbers.next_run())).collect();
                let (claimed, _) = client.batch(Batch::Claim, QUEUE, &runs).await?;
                if claimed.is_empty() {
                    return Ok(());
                }
                client.batch(end, QUEUE, &claimed).await?;
            }
        };
        try_join_all((0..CONNECTIONS).map(|_| end_all())).await.map(drop)
    }

    /// Creates as many tasks as are missing until so many can be claimed.
    pub(crate) async fn top_up(&self, wanted: u64) -> Result<()> {
        let missing = (wanted + self.waiting).saturating_sub(self.count("pending").await?);
        self.fill(missing).await.map(drop)
    }

    /// Stores so much of all of it; the numbers of the tasks that are pending.
    pub(crate) async fn prepare(&mut self, piles: &[Pile], scale: f64) -> Result<Range<u64>> {
        let scaled = |count: u64| (count as f64 * scale).ceil() as u64;
        let mut pending = 0..0;
        for pile in piles {
            progress(&format!("preparing {pile:?}"));
            match *pile {
                Pile::Finished(count) => {
                    for done in (0..scaled(count)).step_by(CHUNK as usize) {
                        progress(&format!("{done} finished"));
                        self.fill(CHUNK.min(scaled(count) - done)).await?;
                        self.end_all(Batch::Complete).await?;
                    }
                }
                Pile::Failed(count) => {
                    self.create(QUEUE, scaled(count), &|_| r#","max_attempts":1"#.to_owned()).await?;
                    self.end_all(Batch::Fail).await?;
                }
                Pile::Delayed(count) => {
                    self.waiting += scaled(count);
                    self.create(QUEUE, scaled(count), &|_| FAR.to_owned()).await?;
                }
                Pile::Chained(count) => {
                    self.waiting += scaled(count);
                    let first = self.numbers.tasks_so_far();
                    let link = move |number: u64| match (number - first).is_multiple_of(CHAIN) {
                        true => FAR.to_owned(),
                        false => format!(r#","dependencies":["{}"]"#, TASKS.id(number - 1)),
                    };
                    self.create(QUEUE, scaled(count), &link).await?;
                }
                Pile::Pending(count) => pending = self.fill(scaled(count)).await?,
                Pile::Spread(count, queues) => {
                    for number in 0..scaled(queues) {
                        let queue = format!("bench-{number}");
                        self.client().await?.call("PUT", &format!("/api/v2/queues/{queue}"), "").await?;
                        self.create(&queue, count / queues, &|_| String::new()).await?;
                    }
                }
                Pile::Retention => {
                    let (path, body) =
                        (format!("/api/v2/queues/{QUEUE}/settings"), r#"{"retention":{"succeeded_seconds":1}}"#);
                    self.client().await?.call("PATCH", &path, body).await?;
                }
            }
        }
        Ok(pending)
    }
}

/// A folder for databases, which is removed when it is dropped.
pub(crate) fn scratch(parent: &Path) -> Result<TempDir> {
    fs::create_dir_all(parent)
        .and_then(|()| tempfile::Builder::new().prefix("taskqueue-bench-").tempdir_in(parent))
        .map_err(|error| format!("{}: {error}", parent.display()).into())
}
