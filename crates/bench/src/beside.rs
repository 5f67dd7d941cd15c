//! What others do beside the load, on threads of their own so that the load has its thread for itself: workers that print and report
//! progress, with those who follow them, or people who have pages of the dashboard open.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use taskqueue_core::limits::{OUTPUT_TEXT_BYTES, TASK_OUTPUT_BYTES};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval_at, sleep};

use crate::client::{Client, Endpoint, text_behind};
use crate::figures::Latencies;
use crate::request::{self, OTHER, Operation, RUNS, TASKS, tasks, with_body};
use crate::scenarios::PAGES;
use crate::server::{Bench, Server};
use crate::{BESIDE, Result};

/// The bytes that a worker prints in a second.
const PIECE_BYTES: usize = 1_024;
const WORKERS: u64 = 1_000;
const FOLLOWERS: u64 = 16;
/// Those who have a page of the dashboard open.
const VIEWERS: u64 = 100;
const PERIOD: Duration = Duration::from_secs(1);
/// As often as a worker sends heartbeats, also while it prints nothing.
const HEARTBEAT_TICKS: u64 = 60;
/// Until all have begun, and until the last answer is there when they pause.
const SETTLING: Duration = Duration::from_secs(2);
/// Begins a piece with the time when it was sent, and is in no other place of it.
const MARK: char = '@';
const STAMP_DIGITS: usize = 20;

/// Times are told from here.
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
/// Nothing that a disk or a database could make smaller.
static RANDOM_TEXT: LazyLock<String> = LazyLock::new(|| (0..80_000).map(|number| TASKS.id(number)).collect());

/// Who is there beside the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    Nobody,
    Workers,
    /// Workers that have printed as much, and only send heartbeats.
    IdleWorkers,
    Viewers,
}

/// What those beside the load share with it.
#[derive(Default)]
struct Shared {
    /// Whether they are to do something.
    is_active: AtomicBool,
    /// How often they did it.
    done: AtomicU64,
    /// How old each piece was when its follower had it.
    ages: Mutex<Latencies>,
}

/// Those beside the load. They end with this, and never by themselves.
pub(crate) struct Others {
    beside: Beside,
    count: u64,
    shared: Arc<Shared>,
    all: JoinSet<Result<()>>,
    begun: (Instant, u64),
    /// The least part that was done in a turn, over what was to be done.
    share: f64,
}

impl Others {
    /// Prepares those who are there, and lets them wait.
    pub(crate) async fn start(beside: Beside, bench: &Bench, server: &Server) -> Result<Option<Self>> {
        let count = bench.scaled(if beside == Beside::Viewers { VIEWERS } else { WORKERS });
        let (shared, mut all, at) = (Arc::<Shared>::default(), JoinSet::new(), &server.endpoint);
        match beside {
            Beside::Nobody => return Ok(None),
            Beside::Viewers => {
                let newest = server.numbers.tasks_so_far() - 1;
                for (_, page) in PAGES.iter().cycle().take(count as usize) {
                    let request = page[0].request(at.address, OTHER, (newest, 0));
                    all.spawn_on(look(at.clone(), request, shared.clone()), BESIDE.handle());
                }
            }
            Beside::Workers | Beside::IdleWorkers => {
                let mut client = server.client().await?;
                for index in 0..count {
                    let printer = Printer::running(server, &mut client, TASK_OUTPUT_BYTES).await?;
                    if index < FOLLOWERS {
                        let follow = follow(at.clone(), printer.path("output"), printer.offset, shared.clone());
                        all.spawn_on(follow, BESIDE.handle());
                    }
                    // Spread over the second, as workers that were not started together are.
                    let start = Instant::now() + PERIOD.mul_f64(1.0 + index as f64 / count as f64);
                    all.spawn_on(printer.work(at.clone(), start, index, shared.clone()), BESIDE.handle());
                }
            }
        }
        let begun = (Instant::now(), 0);
        Ok(Some(Self { beside, count, shared, all, begun, share: f64::INFINITY }))
    }

    pub(crate) async fn begin(&mut self) {
        self.shared.is_active.store(self.beside != Beside::IdleWorkers, Ordering::Relaxed);
        sleep(SETTLING).await;
        self.begun = (Instant::now(), self.shared.done.load(Ordering::Relaxed));
    }

    pub(crate) async fn pause(&mut self) -> Result<()> {
        let (begin, before) = self.begun;
        let expected = self.count as f64 * begin.elapsed().as_secs_f64();
        self.share = self.share.min((self.shared.done.load(Ordering::Relaxed) - before) as f64 / expected);
        self.shared.is_active.store(false, Ordering::Relaxed);
        sleep(SETTLING).await;
        match self.all.try_join_next() {
            Some(ended) => ended?.and(Err("one of those beside the load has ended".into())),
            None => Ok(()),
        }
    }

    /// Returns what they did, and how old each piece was when its follower had it. Without the load of the workers the throughput beside it
    /// says nothing.
    pub(crate) fn figures(&self) -> Vec<(&'static str, f64)> {
        if self.beside != Beside::Workers {
            return Vec::new();
        }
        let ages = self.shared.ages.lock();
        vec![
            ("printed and reported, over once per worker and second", self.share),
            ("a follower has what was sent, p50 ms", ages.millis(0.5)),
            ("a follower has what was sent, p99 ms", ages.millis(0.99)),
            ("a follower has what was sent, max ms", ages.millis(1.0)),
        ]
    }
}

/// One run, and how much it has printed.
#[derive(Debug)]
struct Printer {
    task: String,
    run: String,
    offset: u64,
}

impl Printer {
    /// A running task that has printed so much.
    async fn running(server: &Server, client: &mut Client, bytes: usize) -> Result<Self> {
        let ids = (server.numbers.next_task(), server.numbers.next_run());
        client.operate(Operation::Create, OTHER, ids).await?;
        if client.operate(Operation::Claim, OTHER, ids).await? != ids.0 {
            return Err("a claim did not find the task that was created".into());
        }
        let mut printer = Self { task: TASKS.id(ids.0), run: RUNS.id(ids.1), offset: 0 };
        printer.print(client, bytes).await?;
        Ok(printer)
    }

    fn path(&self, what: &str) -> String {
        tasks(OTHER, &format!("/{}/{what}", self.task))
    }

    /// Says something about the run; these members of the body.
    async fn say(&self, client: &mut Client, what: &str, more: &str) -> Result<()> {
        let body = format!(r#"{{"run_id":"{}"{more}}}"#, self.run);
        client.call("POST", &self.path(what), &body).await.map(drop)
    }

    async fn print(&mut self, client: &mut Client, mut bytes: usize) -> Result<()> {
        while bytes > 0 {
            let piece = bytes.min(OUTPUT_TEXT_BYTES);
            let (offset, text) = (self.offset, text(piece, self.offset as usize));
            self.say(client, "output", &format!(r#","offset":{offset},"text":"{text}""#)).await?;
            self.offset += piece as u64;
            bytes -= piece;
        }
        Ok(())
    }

    /// Prints and reports once a second while it should. What it cannot send in time is left out, and missing in the count.
    async fn work(mut self, at: Endpoint, start: Instant, index: u64, shared: Arc<Shared>) -> Result<()> {
        let mut client = Client::connect(&at).await?;
        let mut ticks = interval_at(start.into(), PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        for tick in index + 1.. {
            ticks.tick().await;
            if shared.is_active.load(Ordering::Relaxed) {
                self.print(&mut client, PIECE_BYTES).await?;
                let progress = format!(r#","progress":{{"loss":{},"step":{tick},"total":100000}}"#, 1.0 / tick as f64);
                self.say(&mut client, "progress", &progress).await?;
                shared.done.fetch_add(1, Ordering::Relaxed);
            }
            if tick.is_multiple_of(HEARTBEAT_TICKS) {
                self.say(&mut client, "heartbeat", "").await?;
            }
        }
        Ok(())
    }
}

/// The time, and random characters, as JSON writes them.
fn text(bytes: usize, from: usize) -> String {
    let stamp = format!("{MARK}{:0STAMP_DIGITS$} ", BEGIN.elapsed().as_nanos());
    let (length, from) = (bytes - stamp.len() - 1, from * 7919 % (RANDOM_TEXT.len() - bytes));
    format!("{stamp}{}\\n", &RANDOM_TEXT[from..from + length])
}

/// How long ago each piece of a text was sent.
fn ages(text: &str, now: Instant) -> impl Iterator<Item = Duration> {
    let sent = |piece: &str| piece.get(..STAMP_DIGITS)?.parse().ok().map(Duration::from_nanos);
    text.split(MARK).skip(1).filter_map(sent).map(move |sent| now.saturating_duration_since(*BEGIN + sent))
}

/// Follows a task as long as it runs, and records how old each piece is when it is there.
async fn follow(at: Endpoint, path: String, mut offset: u64, shared: Arc<Shared>) -> Result<()> {
    let mut client = Client::connect(&at).await?;
    loop {
        let request = request::with_wait(&with_body("GET", at.address, &format!("{path}?offset={offset}"), ""));
        let answer = client.send(&request).await?;
        let (now, body) = (Instant::now(), answer.json());
        let (Some(text), Some(end), false) = (body["text"].as_str(), body["end"].as_u64(), body["ended"] == true)
        else {
            return Err(format!("a follower was answered with {} {body}", answer.status).into());
        };
        ages(text, now).for_each(|age| shared.ages.lock().record(age));
        offset = end;
    }
}

/// Asks for a page while somebody looks, and again after as long as the page says.
async fn look(at: Endpoint, request: Vec<u8>, shared: Arc<Shared>) -> Result<()> {
    loop {
        if shared.is_active.load(Ordering::Relaxed) {
            let answer = Client::connect(&at).await?.send(&request).await?.succeed()?;
            shared.done.fetch_add(1, Ordering::Relaxed);
            sleep(refresh(&answer.text())).await;
        } else {
            sleep(PERIOD).await;
        }
    }
}

/// After how long a page may be asked for again.
fn refresh(page: &str) -> Duration {
    let seconds = text_behind(page, "data-refresh=\"", &['"']).and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_has_its_size_its_time_and_ends_with_its_line() {
        let text = |from| serde_json::from_str::<String>(&format!("\"{}\"", text(PIECE_BYTES, from))).unwrap();
        let (one, other) = (text(0), text(PIECE_BYTES));
        assert!(one.len() == PIECE_BYTES && one.ends_with('\n') && one != other, "{one}");
        let ages: Vec<Duration> = ages(&format!("{one}{other}"), Instant::now()).collect();
        assert!(ages.len() == 2 && ages[0] >= ages[1] && ages[0] < Duration::from_secs(60), "{ages:?}");
        assert_eq!(super::ages("the end of a piece\n", Instant::now()).count(), 0);
    }

    #[test]
    fn a_page_says_when_it_may_be_asked_for_again() {
        assert_eq!(refresh("<body data-refresh=\"20\">"), Duration::from_secs(20));
        assert_eq!(refresh("<body>"), Duration::from_secs(2));
    }
}
