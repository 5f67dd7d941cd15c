//! What all scenarios share: the flags, and servers as child processes, each on an empty database and a port of its own choice. And what
//! is prepared in them: tasks that are pending, that wait, or that have ended.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use taskqueue_test_postgres::{Cluster, patient};
use tempfile::TempDir;

use crate::Args;
use crate::Result;
use crate::client::{Client, Endpoint, trusting};
use crate::figures::{Goal, judged, line, progress};
use crate::load::Load;
use crate::request::{Numbers, OTHER, Operation, QUEUE, TASKS, tasks};
use crate::usage::Usage;

/// As many items as a batch may have.
const BATCH: usize = 1_000;
/// Connections that keep a server busy, with batches and with single requests.
const CONNECTIONS: usize = 4;
const CONNECTIONS_WITHOUT_BATCHES: usize = 64;
/// How many tasks are created at a time before they are claimed and ended.
const CHUNK: u64 = 100_000;
/// Within so many seconds they have all ended.
const LONGEST_PREPARATION: f64 = 86_400.0;
/// How a server is started, before its database.
const SERVE: [&str; 9] =
    ["serve", "--listen", "127.0.0.1:0", "--log-level", "error", "--queue", QUEUE, "--queue", OTHER];
/// Before this no delayed task can be claimed.
const FAR: &str = r#","not_before":"2100-01-01T00:00:00Z""#;

/// Where a server runs, or which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The HTTP stack of the server without the server.
    Reference,
    Disk,
    /// On a disk, and its connections are encrypted.
    Tls,
    /// Another build, on a disk.
    Baseline,
    Postgres,
}

/// A run: its flags, what it shares, and where the figures of the scenario go that is measured.
pub(crate) struct Bench {
    pub(crate) args: Args,
    /// The figures that miss a must.
    pub(crate) missed: Vec<String>,
    pub(crate) scenario: &'static str,
    pub(crate) piles: &'static [Pile],
    pub(crate) goals: &'static [Goal],
    cluster: OnceCell<Cluster>,
}

impl Bench {
    pub(crate) fn new(args: Args) -> Self {
        Self { args, missed: Vec::new(), scenario: "", piles: &[], goals: &[], cluster: OnceCell::new() }
    }

    /// Prints a figure, which is judged if it has a goal.
    pub(crate) fn add(&mut self, name: &str, measured: f64) {
        let (text, is_missed) = judged(self.scenario, name, measured, self.goals);
        line(&text);
        self.missed.extend(is_missed.then_some(text));
    }

    /// Adds a figure if it has a goal.
    pub(crate) fn judge(&mut self, name: &str, measured: f64) {
        if self.goals.iter().any(|goal| goal.is_of(name)) {
            self.add(name, measured);
        }
    }

    /// The PostgreSQL of this run.
    pub(crate) fn cluster(&self) -> &Cluster {
        self.cluster.get_or_init(Cluster::private)
    }

    pub(crate) async fn start(&self, on: On) -> Result<Server> {
        self.start_under(&[], on).await
    }

    /// Starts a server on an empty database; by a program that runs others, if there are words of one.
    pub(crate) async fn start_under(&self, runner: &[&str], on: On) -> Result<Server> {
        let binary = match on {
            On::Baseline => self.args.baseline.as_ref().ok_or("--baseline says which build to compare with")?,
            // This program again.
            On::Reference => &std::env::current_exe()?,
            _ => &self.args.binary,
        };
        let words: Vec<&OsStr> = runner.iter().map(OsStr::new).chain([binary.as_os_str()]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let storage: Rc<dyn Any> = match on {
            On::Reference => {
                command.arg("reference");
                Rc::new(())
            }
            On::Postgres => {
                let database = self.cluster().database();
                command.args(SERVE).arg("--database").arg(patient(&database.url()));
                Rc::new(database)
            }
            On::Disk | On::Tls | On::Baseline => {
                let folder = scratch(&self.args.database_dir)?;
                command.args(SERVE).args((on == On::Tls).then_some("--tls-self-signed"));
                command.arg("--database").arg(folder.path().join("bench.db"));
                Rc::new(folder)
            }
        };
        let server = Server::start(Rc::new(RefCell::new(command)), storage).await?;
        server.numbers.are_repeated.set(on == On::Reference);
        Ok(server)
    }

    /// So much of a number as this run is to prepare.
    pub(crate) fn scaled(&self, number: u64) -> u64 {
        (number as f64 * self.args.scale).ceil() as u64
    }

    /// The numbers of connections for a scenario that takes turns.
    pub(crate) fn connections(&self, usual: &[u16]) -> Vec<usize> {
        let wanted = if self.args.connections.is_empty() { usual } else { &self.args.connections };
        wanted.iter().map(|count| usize::from(*count)).collect()
    }

    pub(crate) fn seconds(&self, usual: f64) -> f64 {
        self.args.seconds.unwrap_or(usual)
    }
}

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

/// What is in a server before something is measured; so many tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pile {
    /// Claimed and ended by this cycle.
    Ended(u64, &'static [Operation]),
    /// They cannot be claimed yet: in chains of this length each but the first waits for another, and the first for its time.
    Waiting(u64, u64),
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
    process: Process,
    /// What started it, and can start another one like it.
    command: Rc<RefCell<Command>>,
    /// Where it keeps what it has: a folder or a database, removed after the last server on it has ended.
    storage: Rc<dyn Any>,
}

impl Server {
    /// Starts the server that is measured, or the reference.
    async fn start(command: Rc<RefCell<Command>>, storage: Rc<dyn Any>) -> Result<Self> {
        let (begin, told, spawned) = (Instant::now(), format!("{:?}", command.borrow()), command.borrow_mut().spawn());
        let mut process = Process(spawned.map_err(|error| format!("{told} cannot be started: {error}"))?);
        let mut line = String::new();
        if let Some(stdout) = &mut process.0.stdout {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let silent = || format!("{told} does not say where it listens; see its log lines above");
        let (scheme, address) = line.trim().split_once("://").ok_or_else(silent)?;
        let tls = match storage.downcast_ref::<TempDir>() {
            Some(folder) if scheme == "https" => Some(trusting(&folder.path().join("bench.db.tls/cert.pem"))?),
            _ => None,
        };
        let mut server = Self::of(process, Endpoint { address: address.parse()?, tls }, command, storage);
        while server.client().await?.get("/health").await.is_err() {
            tokio::task::yield_now().await;
        }
        server.healthy_after = begin.elapsed();
        Ok(server)
    }

    /// A process that listens there already.
    pub(crate) fn of(
        process: Process,
        endpoint: Endpoint,
        command: Rc<RefCell<Command>>,
        storage: Rc<dyn Any>,
    ) -> Self {
        Self { endpoint, numbers: Rc::default(), healthy_after: Duration::ZERO, process, command, storage }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        Ok(Usage::of(self.pid())?)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.endpoint.address)
    }

    /// Tells it to stop, and waits for its end.
    pub(crate) fn stop(&mut self) -> Result<()> {
        Command::new("kill").arg(self.pid().to_string()).status()?;
        self.process.0.wait()?;
        Ok(())
    }

    /// Stops it and starts it again on what it left.
    pub(crate) async fn restart(mut self) -> Result<Self> {
        self.stop()?;
        self.another().await
    }

    /// Starts another one on the same database. Only PostgreSQL serves two at a time.
    pub(crate) async fn another(&self) -> Result<Self> {
        let started = Self::start(self.command.clone(), self.storage.clone()).await?;
        Ok(Self { numbers: self.numbers.clone(), ..started })
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
    pub(crate) async fn create(
        &self,
        queue: &str,
        count: u64,
        more: impl Fn(u64) -> String + 'static,
    ) -> Result<Range<u64>> {
        let first = self.numbers.tasks_so_far();
        let mut load = Load::new(self, &[Operation::Create], CONNECTIONS, LONGEST_PREPARATION);
        (load.queue, load.batch, load.left, load.more) = (queue.to_owned(), BATCH, Cell::new(count), Rc::new(more));
        if !self.has_batches().await? {
            (load.batch, load.connections) = (1, CONNECTIONS_WITHOUT_BATCHES);
        }
        load.run().await?;
        Ok(first..first + count)
    }

    /// Creates tasks for the load.
    pub(crate) async fn fill(&self, count: u64) -> Result<Range<u64>> {
        self.create(QUEUE, count, |_| String::new()).await
    }

    /// Creates as many tasks as are missing until so many can be claimed.
    pub(crate) async fn top_up(&self, wanted: u64) -> Result<()> {
        let missing = (wanted + self.numbers.waiting.get()).saturating_sub(self.count("pending").await?);
        self.fill(missing).await.map(drop)
    }

    /// Stores as much of all of it as this run is to prepare.
    pub(crate) async fn prepare(&self, bench: &Bench, piles: &[Pile]) -> Result<()> {
        for pile in piles {
            progress(&format!("preparing {pile:?}"));
            match *pile {
                Pile::Ended(count, cycle) => {
                    let count = bench.scaled(count);
                    for done in (0..count).step_by(CHUNK as usize) {
                        progress(&format!("{done} ended"));
                        self.create(QUEUE, CHUNK.min(count - done), |_| r#","max_attempts":1"#.to_owned()).await?;
                        let mut load = Load::new(self, cycle, CONNECTIONS, LONGEST_PREPARATION);
                        load.batch = BATCH;
                        load.run().await?;
                    }
                }
                Pile::Waiting(count, chain) => {
                    let (first, count) = (self.numbers.tasks_so_far(), bench.scaled(count));
                    let link = move |number: u64| match (number - first).is_multiple_of(chain) {
                        true => FAR.to_owned(),
                        false => format!(r#","dependencies":["{}"]"#, TASKS.id(number - 1)),
                    };
                    self.numbers.waiting.set(self.numbers.waiting.get() + count);
                    self.create(QUEUE, count, link).await?;
                }
                Pile::Pending(count) => {
                    self.fill(bench.scaled(count)).await?;
                }
                Pile::Spread(count, queues) => {
                    for queue in (0..bench.scaled(queues)).map(|number| format!("bench-{number}")) {
                        self.client().await?.call("PUT", &format!("/api/v2/queues/{queue}"), "").await?;
                        self.create(&queue, count / queues, |_| String::new()).await?;
                    }
                }
                Pile::Retention => {
                    let settings = format!("/api/v2/queues/{QUEUE}/settings");
                    let kept = r#"{"retention":{"succeeded_seconds":1}}"#;
                    self.client().await?.call("PATCH", &settings, kept).await?;
                }
            }
        }
        Ok(())
    }
}

/// A folder for databases, which is removed when it is dropped.
pub(crate) fn scratch(parent: &Path) -> Result<TempDir> {
    fs::create_dir_all(parent)
        .and_then(|()| tempfile::Builder::new().prefix("taskqueue-bench-").tempdir_in(parent))
        .map_err(|error| format!("{}: {error}", parent.display()).into())
}
