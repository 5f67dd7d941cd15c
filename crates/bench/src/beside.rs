//! What others do beside the load, on a thread of their own so that the load has its thread for itself: workers that print and report
//! progress, with those who follow them, or people who have pages of the dashboard open.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{MissedTickBehavior, interval_at, sleep};

use crate::Result;
use crate::bench::Bench;
use crate::client::{Client, Endpoint, text_behind};
use crate::figures::Latencies;
use crate::request::{RUNS, TASKS};
use crate::request::{self, OTHER, Operation, QUEUE, tasks};
use crate::server::Server;

/// The bytes that a worker prints in a second.
pub(crate) const PIECE_BYTES: usize = 1_024;
/// The most that a request may hold, and that a task keeps.
const LARGEST_PIECE: usize = 65_536;
const KEPT_BYTES: usize = 262_144;
const WORKERS: u64 = 1_000;
pub(crate) const FOLLOWERS: usize = 16;
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

/// What those on the thread share with the load.
#[derive(Clone)]
struct Shared {
    /// Whether they are to do something. They end when the load drops its side.
    active: watch::Receiver<bool>,
    /// How often they did it.
    done: Arc<AtomicU64>,
    /// How old each piece was when its follower had it.
    ages: Arc<Mutex<Latencies>>,
}

pub(crate) struct Others {
    beside: Beside,
    count: u64,
    active: watch::Sender<bool>,
    shared: Shared,
    thread: JoinHandle<Result<()>>,
    begun: RefCell<(Instant, u64)>,
    /// The part that was done in each turn, over what was to be done.
    shares: RefCell<Vec<f64>>,
}

impl Others {
    /// Prepares those who are there, and lets them wait.
    pub(crate) async fn start(beside: Beside, bench: &Bench, server: &Server) -> Result<Option<Self>> {
        Ok(Some(match beside {
            Beside::Nobody => return Ok(None),
            Beside::Workers | Beside::IdleWorkers => {
                let printers = Printer::running(server, bench.scaled(WORKERS), KEPT_BYTES).await?;
                Self { beside, ..Self::printing(printers, (server.endpoint.clone(), server.endpoint.clone())) }
            }
            Beside::Viewers => Self::looking(server.endpoint.clone(), pages(server), bench.scaled(VIEWERS)),
        }))
    }

    /// Workers at one endpoint, and those who follow the first of them at another.
    pub(crate) fn printing(printers: Vec<Printer>, (at, following): (Endpoint, Endpoint)) -> Self {
        Self::spawn(Beside::Workers, printers.len() as u64, async move |shared, all| {
            for printer in printers.iter().take(FOLLOWERS) {
                let client = Client::connect(&following).await?;
                all.spawn_local(follow(
                    client,
                    following.clone(),
                    printer.path("output"),
                    printer.offset,
                    shared.clone(),
                ));
            }
            let workers = printers.len() as f64;
            for (index, printer) in printers.into_iter().enumerate() {
                // Spread over the second, as workers that were not started together are.
                let start = Instant::now() + PERIOD.mul_f64(1.0 + index as f64 / workers);
                all.spawn_local(printer.work(Client::connect(&at).await?, start, index as u64, shared.clone()));
            }
            Ok(())
        })
    }

    /// People, each with one of the pages open.
    pub(crate) fn looking(at: Endpoint, pages: Vec<String>, count: u64) -> Self {
        Self::spawn(Beside::Viewers, count, async move |shared, all| {
            for page in pages.into_iter().cycle().take(count as usize) {
                all.spawn_local(look(at.clone(), page, shared.clone()));
            }
            Ok(())
        })
    }

    /// Starts a thread for all whom this begins. None of them ends by itself.
    fn spawn(
        beside: Beside,
        count: u64,
        begin: impl AsyncFnOnce(&Shared, &mut JoinSet<Result<()>>) -> Result<()> + Send + 'static,
    ) -> Self {
        let (active, watched) = watch::channel(false);
        let shared = Shared { active: watched, done: Arc::default(), ages: Arc::default() };
        let theirs = shared.clone();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            LocalSet::new().block_on(&runtime, async {
                let mut all = JoinSet::new();
                begin(&theirs, &mut all).await?;
                let mut active = theirs.active.clone();
                tokio::select! {
                    Some(ended) = all.join_next() => ended?,
                    _ = async { while active.changed().await.is_ok() {} } => Ok(()),
                }
            })
        });
        let (begun, shares) = (RefCell::new((Instant::now(), 0)), RefCell::default());
        Self { beside, count, active, shared, thread, begun, shares }
    }

    pub(crate) async fn begin(&self) {
        self.active.send_replace(self.beside != Beside::IdleWorkers);
        sleep(SETTLING).await;
        self.begun.replace((Instant::now(), self.shared.done.load(Ordering::Relaxed)));
    }

    pub(crate) async fn pause(&self) -> Result<()> {
        let (begin, before) = *self.begun.borrow();
        let expected = self.count as f64 * begin.elapsed().as_secs_f64();
        self.shares.borrow_mut().push((self.shared.done.load(Ordering::Relaxed) - before) as f64 / expected);
        self.active.send_replace(false);
        sleep(SETTLING).await;
        if self.thread.is_finished() { Err("those beside the load have ended".into()) } else { Ok(()) }
    }

    /// Lets all of them end; what they did, and how old each piece was when its follower had it. Without the load of the workers the
    /// throughput beside it says nothing.
    pub(crate) fn end(self) -> Result<Vec<(&'static str, f64)>> {
        drop(self.active);
        self.thread.join().map_err(|_| "those beside the load panicked")??;
        if self.beside != Beside::Workers {
            return Ok(Vec::new());
        }
        let share = self.shares.take().into_iter().fold(f64::INFINITY, f64::min);
        let ages = self.shared.ages.lock().map_err(|_| "a follower panicked")?;
        Ok(vec![
            ("printed and reported, over once per worker and second", share),
            ("a follower has what was sent, p50 ms", ages.millis(0.5)),
            ("a follower has what was sent, p99 ms", ages.millis(0.99)),
            ("a follower has what was sent, max ms", ages.millis(1.0)),
        ])
    }
}

/// One run, and how much it has printed.
#[derive(Debug)]
pub(crate) struct Printer {
    task: String,
    run: String,
    pub(crate) offset: u64,
    steps: u64,
}

impl Printer {
    /// Running tasks that have printed so much.
    pub(crate) async fn running(server: &Server, count: u64, bytes: usize) -> Result<Vec<Self>> {
        let (mut client, mut printers) = (server.client().await?, Vec::new());
        for _ in 0..count {
            let (task, run) = running_task(server, &mut client).await?;
            let mut printer = Self { task: TASKS.id(task), run: RUNS.id(run), offset: 0, steps: 0 };
            printer.print(&mut client, bytes).await?;
            printers.push(printer);
        }
        Ok(printers)
    }

    pub(crate) fn path(&self, what: &str) -> String {
        tasks(OTHER, &format!("/{}/{what}", self.task))
    }

    /// Says something about the run; these members of the body.
    async fn say(&self, client: &mut Client, what: &str, more: &str) -> Result<()> {
        let body = format!(r#"{{"run_id":"{}"{more}}}"#, self.run);
        client.call("POST", &self.path(what), &body).await.map(drop)
    }

    async fn print(&mut self, client: &mut Client, mut bytes: usize) -> Result<()> {
        while bytes > 0 {
            let piece = bytes.min(LARGEST_PIECE);
            let (offset, text) = (self.offset, text(piece, self.offset as usize));
            self.say(client, "output", &format!(r#","offset":{offset},"text":"{text}""#)).await?;
            self.offset += piece as u64;
            bytes -= piece;
        }
        Ok(())
    }

    /// Prints and reports once a second while it should. What it cannot send in time is left out, and missing in the count.
    async fn work(mut self, mut client: Client, start: Instant, index: u64, shared: Shared) -> Result<()> {
        let mut ticks = interval_at(start.into(), PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        for tick in index.. {
            ticks.tick().await;
            if *shared.active.borrow() {
                self.print(&mut client, PIECE_BYTES).await?;
                self.steps += 1;
                let (step, loss) = (self.steps, 1.0 / self.steps as f64);
                let progress = format!(r#","progress":{{"loss":{loss},"step":{step},"total":100000}}"#);
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

/// Creates and claims a task; its number and that of the run.
pub(crate) async fn running_task(server: &Server, client: &mut Client) -> Result<(u64, u64)> {
    let ids = (server.numbers.next_task(), server.numbers.next_run());
    client.operate(Operation::Create, OTHER, ids).await?;
    match client.operate(Operation::Claim, OTHER, ids).await?.claimed_task() {
        Some(task) if task == ids.0 => Ok(ids),
        other => Err(format!("a claim found {other:?} instead of the task that was created").into()),
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
async fn follow(mut client: Client, at: Endpoint, path: String, mut offset: u64, shared: Shared) -> Result<()> {
    loop {
        let request = request::with_wait(&request::get(at.address, &format!("{path}?offset={offset}")));
        let answer = client.send(&request).await?;
        let (now, body) = (Instant::now(), answer.json());
        let (Some(text), Some(end), false) = (body["text"].as_str(), body["end"].as_u64(), body["ended"] == true)
        else {
            return Err(format!("a follower was answered with {} {body}", answer.status).into());
        };
        let mut seen = shared.ages.lock().map_err(|_| "a follower panicked")?;
        ages(text, now).for_each(|age| seen.record(age));
        offset = end;
    }
}

/// One of each page of the dashboard.
pub(crate) fn pages(server: &Server) -> Vec<String> {
    let newest = format!("tasks/{}", TASKS.id(server.numbers.tasks_so_far() - 1));
    let of_queue = ["tasks", &newest, "workers", "routes", "compare", "submit", "settings"];
    let of_queue = of_queue.into_iter().map(|page| format!("/ui/queues/{QUEUE}/{page}"));
    ["/ui/".to_owned(), "/ui/system".to_owned()].into_iter().chain(of_queue).collect()
}

/// Asks for a page while somebody looks, and again after as long as the page says.
async fn look(at: Endpoint, page: String, mut shared: Shared) -> Result<()> {
    loop {
        // The load is over when its end is dropped.
        if shared.active.wait_for(|active| *active).await.is_err() {
            return Ok(());
        }
        let answer = Client::connect(&at).await?.get(&page).await?;
        shared.done.fetch_add(1, Ordering::Relaxed);
        sleep(refresh(&answer.text())).await;
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
