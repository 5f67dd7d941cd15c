//! Servers as child processes, on a port of their own choice, and what is prepared in them: tasks that are pending, that wait, or that
//! have ended.

use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use taskqueue_test_postgres::{Database, patient};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::client::{Client, Endpoint, trusting};
use crate::failure::{Failure, Result};
use crate::figures::progress;
use crate::numbered_ids::{Numbers, task_id};
use crate::request::{self, Batch, OTHER, Operation, QUEUE, Requests, tasks};
use crate::usage::Usage;

/// As many items as a batch may have.
const BATCH: u64 = 1_000;
/// Connections that keep a server busy which has no batches.
const CONNECTIONS: u64 = 64;
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

/// Where a server keeps what it has; removed after the server has ended.
pub(crate) enum Storage {
    Folder(TempDir),
    Postgres(Rc<Database>),
}

/// The numbers of tasks that are in a server before something is measured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prepared {
    pub(crate) finished: u64,
    /// Failed for good.
    pub(crate) failed: u64,
    pub(crate) delayed: u64,
    /// Each but the first of ten waits for another.
    pub(crate) chained: u64,
    pub(crate) pending: u64,
    /// Queues over which the pending ones are spread; 0 for the one of the load.
    pub(crate) queues: u64,
    /// Finished tasks are deleted after a second.
    pub(crate) retention: bool,
}

pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    pub(crate) numbers: Rc<Numbers>,
    /// How long it took from its start to its first healthy answer.
    pub(crate) healthy_after: Duration,
    /// Pending tasks that cannot be claimed.
    waiting: u64,
    process: Process,
    /// Kept open, so that the server never writes into a closed pipe.
    _stdout: BufReader<ChildStdout>,
    binary: PathBuf,
    storage: Option<Storage>,
}

impl Server {
    /// Starts the server that is measured, with the queues of all scenarios; it may be told how much memory it may use.
    pub(crate) async fn start(
        binary: &Path,
        storage: Storage,
        more: &[&str],
        memory_bytes: Option<u64>,
    ) -> Result<Self> {
        let mut command = Command::new(binary);
        if let Some(bytes) = memory_bytes {
            command = Command::new("prlimit");
            command.arg(format!("--rss={bytes}")).arg("--").arg(binary);
        }
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "error"]).args(more);
        match &storage {
            Storage::Folder(folder) => command.arg("--database").arg(folder.path().join("bench.db")),
            Storage::Postgres(database) => command.arg("--database").arg(patient(&database.url())),
        };
        command.args(["--queue", QUEUE, "--queue", OTHER]);
        let mut server = Self::spawn(command, Some(storage)).await?;
        server.binary = binary.to_owned();
        Ok(server)
    }

    /// Starts this program again as the reference.
    pub(crate) async fn reference() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("reference");
        Self::spawn(command, None).await
    }

    async fn spawn(mut command: Command, storage: Option<Storage>) -> Result<Self> {
        let begin = Instant::now();
        let refused = |why: &str| Failure::new(format!("{command:?} {why}"));
        let failed = refused("does not say where it listens; see its log lines above");
        let started = refused("cannot be started");
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = Process(spawned.map_err(|error| started.of(&error.to_string()))?);
        let Some(stdout) = process.0.stdout.take() else { return Err(failed) };
        let (mut stdout, mut line) = (BufReader::new(stdout), String::new());
        stdout.read_line(&mut line)?;
        let Some((scheme, address)) = line.trim().split_once("://") else { return Err(failed) };
        let Ok(address) = address.parse() else { return Err(failed) };
        let tls = match (&storage, scheme) {
            (Some(Storage::Folder(folder)), "https") => Some(trusting(&folder.path().join("bench.db.tls/cert.pem"))?),
            _ => None,
        };
        let endpoint = Endpoint { address, tls };
        while Client::connect(&endpoint).await?.get("/health").await.is_err() {
            tokio::task::yield_now().await;
        }
        let (numbers, healthy_after) = (Rc::default(), begin.elapsed());
        let (binary, waiting) = (PathBuf::new(), 0);
        Ok(Self { endpoint, numbers, healthy_after, waiting, process, _stdout: stdout, binary, storage })
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
        let Some(storage) = self.storage.take() else { return Err(Failure::new("nothing was stored".to_owned())) };
        let (numbers, waiting) = (self.numbers.clone(), self.waiting);
        Ok(Self { numbers, waiting, ..Self::start(&self.binary, storage, &[], None).await? })
    }

    /// Starts another one on the same PostgreSQL database.
    pub(crate) async fn another(&self) -> Result<Self> {
        match &self.storage {
            Some(Storage::Postgres(database)) => {
                let (storage, numbers) = (Storage::Postgres(database.clone()), self.numbers.clone());
                Ok(Self { numbers, ..Self::start(&self.binary, storage, &[], None).await? })
            }
            _ => Err(Failure::new("only PostgreSQL serves two servers".to_owned())),
        }
    }

    pub(crate) async fn client(&self) -> Result<Client> {
        Ok(Client::connect(&self.endpoint).await?)
    }

    pub(crate) fn requests(&self, queue: &str) -> Requests {
        Requests::new(self.endpoint.address, queue)
    }

    /// How many tasks of the load's queue have this status.
    pub(crate) async fn count(&self, status: &str) -> Result<u64> {
        let mut client = self.client().await?;
        let answer = client.get(&tasks(QUEUE, &format!("/count?status={status}"))).await?;
        answer.number("count").ok_or_else(|| Failure::new(answer.text().into_owned()))
    }

    /// Creates so many tasks with these members; their numbers. One by one if the server has no batches.
    pub(crate) async fn create(&self, queue: &str, count: u64, more: &dyn Fn(u64) -> String) -> Result<Range<u64>> {
        let first = self.numbers.tasks_so_far();
        let end = first + count;
        let capabilities = request::get(self.endpoint.address, "/api/v2/capabilities");
        if count > 0 && !self.client().await?.send(&capabilities).await?.text().contains("\"batch\"") {
            let mut connections = JoinSet::new();
            for _ in 0..CONNECTIONS {
                let (numbers, mut client, mut requests) =
                    (self.numbers.clone(), self.client().await?, self.requests(queue));
                connections.spawn_local(async move {
                    while numbers.tasks_so_far() < end {
                        client.operate(&mut requests, Operation::Create, (numbers.next_task(), 0)).await?;
                    }
                    Ok::<_, Failure>(())
                });
            }
            while let Some(ended) = connections.join_next().await {
                ended??;
            }
        }
        let create = || async {
            let mut client = self.client().await?;
            while let left @ 1.. = end.saturating_sub(self.numbers.tasks_so_far()) {
                let items: Vec<(u64, u64)> = (0..left.min(BATCH)).map(|_| (self.numbers.next_task(), 0)).collect();
                client.batch(Batch::Create(more), queue, &items).await?;
            }
            Ok::<_, Failure>(())
        };
        tokio::try_join!(create(), create(), create(), create())?;
        Ok(first..end)
    }

    /// Creates tasks for the load.
    pub(crate) async fn fill(&self, count: u64) -> Result<Range<u64>> {
        self.create(QUEUE, count, &|_| String::new()).await
    }

    /// Claims and completes, or fails, until nothing is pending.
    async fn end_all(&self, end: Batch<'static>) -> Result<()> {
        let end_all = || async {
            let mut client = self.client().await?;
            loop {
                let runs: Vec<(u64, u64)> = (0..BATCH).map(|_| (0, self.numbers.next_run())).collect();
                let (claimed, _) = client.batch(Batch::Claim, QUEUE, &runs).await?;
                if claimed.is_empty() {
                    return Ok::<_, Failure>(());
                }
                client.batch(end, QUEUE, &claimed).await?;
            }
        };
        tokio::try_join!(end_all(), end_all(), end_all(), end_all()).map(drop)
    }

    /// Creates as many tasks as are missing until so many can be claimed.
    pub(crate) async fn top_up(&self, wanted: u64) -> Result<()> {
        let missing = (wanted + self.waiting).saturating_sub(self.count("pending").await?);
        self.fill(missing).await.map(drop)
    }

    /// Stores all of it; the numbers of the tasks that are pending.
    pub(crate) async fn prepare(&mut self, prepared: &Prepared) -> Result<Range<u64>> {
        let Prepared { finished, failed, delayed, chained, pending, queues, retention } = *prepared;
        for done in (0..finished).step_by(CHUNK as usize) {
            progress(&format!("{done} of {finished} finished"));
            self.fill(CHUNK.min(finished - done)).await?;
            self.end_all(Batch::Complete).await?;
        }
        if failed > 0 {
            self.create(QUEUE, failed, &|_| r#","max_attempts":1"#.to_owned()).await?;
            self.end_all(Batch::Fail).await?;
        }
        self.create(QUEUE, delayed, &|_| FAR.to_owned()).await?;
        let first = self.numbers.tasks_so_far();
        let link = move |number: u64| match (number - first).is_multiple_of(CHAIN) {
            true => FAR.to_owned(),
            false => format!(r#","dependencies":["{}"]"#, task_id(number - 1)),
        };
        self.create(QUEUE, chained, &link).await?;
        self.waiting = delayed + chained;
        let mut client = self.client().await?;
        if retention {
            let path = format!("/api/v2/queues/{QUEUE}/settings");
            client.call("PATCH", &path, r#"{"retention":{"succeeded_seconds":1}}"#).await?;
        }
        for number in 0..queues {
            let queue = format!("bench-{number}");
            client.call("PUT", &format!("/api/v2/queues/{queue}"), "").await?;
            self.create(&queue, pending / queues, &|_| String::new()).await?;
        }
        if queues == 0 && pending > CHUNK {
            progress(&format!("{pending} pending"));
        }
        self.fill(if queues == 0 { pending } else { 0 }).await
    }
}

/// A folder for databases, which is removed when it is dropped.
pub(crate) fn scratch(parent: &Path) -> Result<TempDir> {
    fs::create_dir_all(parent)
        .and_then(|()| tempfile::Builder::new().prefix("taskqueue-bench-").tempdir_in(parent))
        .map_err(|error| Failure::from(error).of(&parent.display().to_string()))
}
