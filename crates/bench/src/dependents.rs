//! `taskqueue-bench dependents`: how long the completion of a task takes for which many others wait, and how soon all of them can
//! be claimed (rows 42 and 43 of the goals), on SQLite and on PostgreSQL. Another client works in another queue meanwhile.

use std::cell::Cell;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taskqueue_test_postgres::Cluster;
use tokio::time::sleep;

use crate::another_client::{HEADING, Over, Waits};
use crate::args::DependentsArgs;
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::fill::BATCH;
use crate::goals::Judged;
use crate::measurement::median;
use crate::numbered_ids::{Numbers, run_id, task_id};
use crate::operation::Phase;
use crate::process::{Server, scratch};
use crate::results::Results;
use crate::waiting_tasks::ARGS_BYTES;
use crate::{output, request, table};

const QUEUE: fn() -> &'static str = || Phase::BulkUpdate.queue();
/// How often it is asked whether the last of them can be claimed.
const POLL_PAUSE: Duration = Duration::from_millis(10);

/// What the completion of one task with so many dependents did.
struct Round {
    completion: Duration,
    claimable: Duration,
    meanwhile: Waits,
}

/// The rounds on one kind of database.
struct Measured {
    storage: &'static str,
    rounds: Vec<Round>,
}

pub(crate) async fn run(args: &DependentsArgs) -> Result<Results> {
    let cluster = Cluster::private();
    let (mut sqlite, mut postgres) = (Measured::new("SQLite"), Measured::new("PostgreSQL"));
    for round in 1..=args.rounds {
        output::progress(&format!("round {round} of {}: {} dependents on SQLite", args.rounds, args.dependents));
        let folder = scratch(&args.server.database_dir)?;
        sqlite.rounds.push(measure(args, folder.path().join("bench.db").as_os_str()).await?);
        output::progress(&format!("round {round} of {}: the same on PostgreSQL", args.rounds));
        let database = cluster.database();
        postgres.rounds.push(measure(args, database.url().as_ref()).await?);
    }
    let both = [sqlite, postgres];
    let rows: Vec<Vec<String>> = both.iter().map(Measured::row).collect();
    let others = both.iter().flat_map(|measured| measured.meanwhile().rows(measured.storage)).collect::<Vec<_>>();
    let own = table::render(&["storage", "completion ms", "all claimable after s"], &rows, 1);
    Ok(Results {
        text: format!("{} dependents of one task\n\n{own}\n\n{}", args.dependents, table::render(&HEADING, &others, 2)),
        figures: both.iter().map(Measured::json).collect::<Vec<_>>().into(),
        judged: both.iter().flat_map(|measured| measured.judge(args.dependents)).collect(),
    })
}

async fn measure(args: &DependentsArgs, database: &OsStr) -> Result<Round> {
    let server = Server::taskqueue(&args.server.binary, database)?;
    let (address, numbers) = (server.address, Rc::<Numbers>::default());
    let (first, run) = (numbers.next_task(), numbers.next_run());
    let mut client = Client::connect(address).await?;
    create(&mut client, address, &[first], None).await?;
    let claim = format!(r#"{{"route":"default","run_id":"{}"}}"#, run_id(run));
    send(&mut client, address, "/tasks/claim", &claim).await?;
    let mut last = first;
    for created in (0..args.dependents).step_by(BATCH as usize) {
        let tasks: Vec<u64> = (0..BATCH.min(args.dependents - created)).map(|_| numbers.next_task()).collect();
        create(&mut client, address, &tasks, Some(first)).await?;
        last = tasks[tasks.len() - 1];
    }
    let is_over = Rc::new(Cell::new(false));
    let completing = tokio::task::spawn_local(complete(client, address, (first, run), last, is_over.clone()));
    let meanwhile = Waits::measure(address, &numbers, || is_over.get()).await?;
    let (completion, claimable) = completing.await.map_err(|error| Failure::new(error.to_string()))??;
    Ok(Round { completion, claimable, meanwhile })
}

/// Completes the task; how long that took, and when the last one that waits for it could be claimed. They are settled in the order
/// in which they were created.
async fn complete(
    mut client: Client,
    address: SocketAddr,
    (task, run): (u64, u64),
    last: u64,
    is_over: Rc<Cell<bool>>,
) -> Result<(Duration, Duration)> {
    let _over = Over(is_over);
    let (path, body) =
        (format!("/tasks/{}/complete", task_id(task)), format!(r#"{{"run_id":"{}","result":{{}}}}"#, run_id(run)));
    let begin = Instant::now();
    send(&mut client, address, &path, &body).await?;
    let completion = begin.elapsed();
    let explain = format!("/api/v2/queues/{}/tasks/{}/explain", QUEUE(), task_id(last));
    loop {
        let answer = client.send(&request::get(address, &explain)).await?;
        if answer.status != 200 {
            return Err(Failure::new(format!("explain was answered with {}", answer.status)));
        }
        if String::from_utf8_lossy(answer.body).contains(r#""claimable":true"#) {
            return Ok((completion, begin.elapsed()));
        }
        sleep(POLL_PAUSE).await;
    }
}

/// Creates tasks, which may wait for another one.
async fn create(client: &mut Client, address: SocketAddr, tasks: &[u64], dependency: Option<u64>) -> Result<()> {
    let text = "x".repeat(ARGS_BYTES);
    let waits = dependency.map_or(String::new(), |id| format!(r#","dependencies":["{}"]"#, task_id(id)));
    let item = |task: &u64| format!(r#"{{"id":"{}","args":{{"text":"{text}"}}{waits}}}"#, task_id(*task));
    let items: Vec<String> = tasks.iter().map(item).collect();
    let body = format!(r#"{{"tasks":[{}]}}"#, items.join(","));
    send(client, address, "/tasks/batch/create", &body).await
}

/// A request that must be done, every item of a batch too.
async fn send(client: &mut Client, address: SocketAddr, path: &str, body: &str) -> Result<()> {
    let path = format!("/api/v2/queues/{}{path}", QUEUE());
    client.send(request::with_body("POST", address, &path, body).as_bytes()).await?.require_done()
}

impl Measured {
    fn new(storage: &'static str) -> Self {
        Self { storage, rounds: Vec::new() }
    }

    fn completion_millis(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.completion.as_secs_f64() * 1e3).collect())
    }

    fn claimable_seconds(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.claimable.as_secs_f64()).collect())
    }

    fn meanwhile(&self) -> Waits {
        Waits::merged(self.rounds.iter().map(|round| &round.meanwhile))
    }

    fn row(&self) -> Vec<String> {
        let (millis, seconds) = (self.completion_millis(), self.claimable_seconds());
        vec![self.storage.to_owned(), format!("{millis:.1}"), format!("{seconds:.2}")]
    }

    fn judge(&self, dependents: u64) -> [Judged; 2] {
        let storage = self.storage;
        let completion = format!("{storage}: completion of a task with {dependents} dependents, ms");
        let claimable = format!("{storage}: {dependents} dependents of a task can be claimed, s");
        [
            Judged::at_most(42, &completion, self.completion_millis(), 50.0, 20.0),
            Judged::at_most(43, &claimable, self.claimable_seconds(), 5.0, 2.0),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "storage": self.storage,
            "completion_milliseconds": self.completion_millis(),
            "claimable_seconds": self.claimable_seconds(),
            "meanwhile": self.meanwhile().json(),
        })
    }
}
