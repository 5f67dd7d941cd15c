//! `taskqueue-bench history`: what a long history costs a server that has little to do (rows 25 and 26 of the goals). One server
//! has finished many tasks, the other none; both are started again and then take turns, with one connection.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::args::HistoryArgs;
use crate::backlog;
use crate::client::{Client, QueueClient};
use crate::failure::{Failure, Result};
use crate::goals::Judged;
use crate::latencies::Latencies;
use crate::numbered_ids::Numbers;
use crate::operation::{Operation, Phase};
use crate::process::{Server, scratch};
use crate::report::{mebibytes, mebibytes_text, milliseconds};
use crate::results::Results;
use crate::usage::Usage;
use crate::{fill, output, request, table};

/// Tasks that both servers have to do.
const PENDING: u64 = 1_000;
/// Tasks that have failed, spread over the history.
const FAILED: u64 = 100;
/// How often the servers take turns, and how many samples of each kind a turn has.
const TURNS: usize = 10;
const SAMPLES: usize = 50;
/// For how long memory is watched after the start: a server may prepare something in the background.
const SETTLING: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A server with so many finished tasks, and what they cost it.
struct Subject {
    finished: u64,
    failed: u64,
    database: PathBuf,
    server: Server,
    numbers: Rc<Numbers>,
    healthy_after: Duration,
    /// The most that was seen after the start.
    rss_bytes: u64,
    claim: Latencies,
    create: Latencies,
    failed_page: Latencies,
    /// The first of these pages after the start.
    first_failed_page: Duration,
}

pub(crate) async fn run(args: &HistoryArgs) -> Result<Results> {
    let scratch = scratch(&args.server.database_dir)?;
    let empty = Subject::fill(args, scratch.path(), 0).await?;
    let full = Subject::fill(args, scratch.path(), args.finished).await?;
    output::progress("starting again");
    let mut subjects = [empty.restart(args).await?, full.restart(args).await?];
    output::progress("measuring");
    for turn in 0..=TURNS {
        for subject in &mut subjects {
            if turn == 1 {
                // The first turn was the warm-up.
                (subject.claim, subject.create, subject.failed_page) = Default::default();
            }
            subject.sample().await?;
        }
    }
    let [empty, full] = &subjects;
    let figures = json!([empty.json(), full.json()]);
    Ok(Results { text: render(&subjects), figures, judged: judge(empty, full) })
}

impl Subject {
    /// Finishes so many tasks, of which some fail, and leaves some pending.
    async fn fill(args: &HistoryArgs, folder: &Path, finished: u64) -> Result<Self> {
        let database = folder.join(format!("history-{finished}.db"));
        let server = Server::taskqueue(&args.server.binary, database.as_os_str())?;
        if !fill::has_batches(server.address).await? {
            return Err(Failure::new("a history is made by batches, and the server has none".to_owned()));
        }
        let (address, queue, numbers) = (server.address, queue(), Rc::<Numbers>::default());
        let (mut done, mut failed, begin) = (0, 0, Instant::now());
        while done < finished {
            let chunk = args.chunk.min(finished - done);
            fill::fill(address, queue, chunk, numbers.clone()).await?;
            fill::complete_all(address, queue, &numbers).await?;
            done += chunk;
            let failing = FAILED * done / finished - failed;
            if failing > 0 {
                fill::fail(address, queue, failing, &numbers).await?;
                failed += failing;
            }
            let rate = done as f64 / begin.elapsed().as_secs_f64();
            output::progress(&format!("{done} of {finished} finished, {rate:.0} per second"));
        }
        fill::fill(address, queue, PENDING, numbers.clone()).await?;
        let counted = (fill::count(address, queue, "succeeded").await?, fill::count(address, queue, "failed").await?);
        if counted != (finished, failed) {
            return Err(Failure::new(format!("{counted:?} succeeded and failed, not {:?}", (finished, failed))));
        }
        Ok(Self {
            finished,
            failed,
            database,
            server,
            numbers,
            healthy_after: Duration::ZERO,
            rss_bytes: 0,
            claim: Latencies::default(),
            create: Latencies::default(),
            failed_page: Latencies::default(),
            first_failed_page: Duration::ZERO,
        })
    }

    /// Stops the server, starts it on what it left, and watches its memory.
    async fn restart(self, args: &HistoryArgs) -> Result<Self> {
        self.server.stop()?;
        let server = Server::taskqueue(&args.server.binary, self.database.as_os_str())?;
        let (begin, mut rss_bytes) = (Instant::now(), 0);
        while begin.elapsed() < SETTLING {
            rss_bytes = rss_bytes.max(Usage::of(server.pid())?.rss_bytes);
            sleep(LOOK_EVERY).await;
        }
        let healthy_after = server.healthy_after;
        let restarted = Self { server, healthy_after, rss_bytes, ..self };
        let first_failed_page = restarted.page_of_failed().await?;
        Ok(Self { first_failed_page, ..restarted })
    }

    /// Some claims, which are given back at once, creations and pages.
    async fn sample(&mut self) -> Result<()> {
        backlog::claims(self.server.address, &self.numbers, SAMPLES, &mut self.claim).await?;
        let mut client = QueueClient::connect(self.server.address, Phase::Create.queue()).await?;
        for _ in 0..SAMPLES {
            let begin = Instant::now();
            client.succeed(Operation::Create, self.numbers.next_task(), 0).await?;
            self.create.record(begin.elapsed());
        }
        for _ in 0..SAMPLES {
            let taken = self.page_of_failed().await?;
            self.failed_page.record(taken);
        }
        Ok(())
    }

    /// How long the first page of failed tasks takes. All of them fit on it.
    async fn page_of_failed(&self) -> Result<Duration> {
        let address = self.server.address;
        let path = format!("/api/v2/queues/{}/tasks?status=failed&limit={FAILED}", queue());
        let mut client = Client::connect(address).await?;
        let begin = Instant::now();
        let answer = client.send(&request::get(address, &path)).await?;
        let taken = begin.elapsed();
        let found = String::from_utf8_lossy(answer.body).matches(r#""status":"failed""#).count() as u64;
        if (answer.status, found) == (200, self.failed) {
            return Ok(taken);
        }
        Err(Failure::new(format!("the page of failed tasks was {} with {found} tasks", answer.status)))
    }

    fn json(&self) -> Value {
        json!({
            "finished": self.finished,
            "failed": self.failed,
            "pending": PENDING,
            "rss_bytes": self.rss_bytes,
            "start_to_healthy_seconds": self.healthy_after.as_secs_f64(),
            "claim_p50_nanoseconds": self.claim.quantile_nanos(0.5),
            "create_p50_nanoseconds": self.create.quantile_nanos(0.5),
            "failed_page_p50_nanoseconds": self.failed_page.quantile_nanos(0.5),
            "failed_page_max_nanoseconds": self.failed_page.max_nanos(),
            "first_failed_page_seconds": self.first_failed_page.as_secs_f64(),
        })
    }
}

fn queue() -> &'static str {
    Phase::ClaimComplete.queue()
}

fn judge(empty: &Subject, full: &Subject) -> Vec<Judged> {
    let growth = |of: fn(&Subject) -> &Latencies| of(full).quantile_millis(0.5) / of(empty).quantile_millis(0.5);
    let (rss, start) = (mebibytes(full.rss_bytes), full.healthy_after.as_secs_f64() * 1e3);
    let finished = full.finished;
    let page = full.failed_page.quantile_millis(0.5);
    let what = |what: &str| format!("{finished} finished, {PENDING} pending: {what}");
    vec![
        Judged::at_most(25, &what("RSS after start, MiB"), rss, 64.0, 32.0),
        Judged::at_most(25, &what("start to healthy, ms"), start, 300.0, 100.0),
        Judged::at_most(25, &what("claim p50 over an empty history"), growth(|of| &of.claim), 1.25, 1.05),
        Judged::at_most(25, &what("creation p50 over an empty history"), growth(|of| &of.create), 1.25, 1.05),
        Judged::at_most(26, &what(&format!("page of {FAILED} failed, p50 ms")), page, 10.0, 2.0),
    ]
}

fn render(subjects: &[Subject]) -> String {
    let heading = [
        "finished",
        "RSS MiB after start",
        "start to healthy ms",
        "claim p50 ms",
        "creation p50 ms",
        "failed page p50 ms",
        "max",
        "first after start",
    ];
    let row = |subject: &Subject| {
        let mut row = vec![subject.finished.to_string(), mebibytes_text(subject.rss_bytes)];
        row.push(format!("{:.0}", subject.healthy_after.as_secs_f64() * 1e3));
        row.extend(
            [&subject.claim, &subject.create, &subject.failed_page].map(|of| milliseconds(of.quantile_nanos(0.5))),
        );
        row.push(milliseconds(subject.failed_page.max_nanos()));
        row.push(format!("{:.3}", subject.first_failed_page.as_secs_f64() * 1e3));
        row
    };
    table::render(&heading, &subjects.iter().map(row).collect::<Vec<_>>(), 0)
}
