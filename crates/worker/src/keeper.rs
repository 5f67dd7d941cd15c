//! The keeper: a small parent process of the worker. When the worker ends in any way, the keeper kills the processes that it has
//! left, and knows which runs it has left, because the worker tells it of each beginning and end. When the keeper ends, the worker
//! notices and does the same. So a kill -9 of either leaves nothing running. Stop requests come to the worker from its keeper and from
//! its own signals; a signal that is sent to both is one request. What the worker does then is not decided here.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{getpid, set_child_subreaper};
use rustix::thread::set_name;
use signal_hook::consts::signal::{SIGALRM, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use taskqueue_client::{RunId, TaskId};

use crate::process;
pub use crate::process::HAS_KEEPER_VARIABLE;
pub use crate::process::proc::is_ignored;
use crate::process::proc::{kill_children, take_stdin_socket};

/// The role of this process.
#[derive(Debug)]
pub enum Role {
    /// The keeper, after the worker has ended.
    Keeper(WorkerEnd),
    Worker(StopRequests),
}

/// The end of a worker.
#[derive(Debug)]
pub struct WorkerEnd {
    /// The process that it was.
    pub pid: u32,
    /// The code with which the keeper should exit.
    pub code: u8,
    /// The signal that killed it, if one did.
    pub signal: Option<i32>,
    /// The runs that it has not ended, however it ended itself.
    pub left: Vec<LeftRun>,
    /// A process of theirs may be alive, because it could not be killed. Then none of them may begin elsewhere.
    pub has_survivors: bool,
}

/// Makes this process the keeper: starts the program a second time as the worker and waits for its end. In that second process it
/// returns at once.
///
/// Call this first, before any thread is started. The worker and its children have no standard input.
///
/// # Errors
///
/// When the worker cannot be started or cannot register its signals.
pub fn start() -> io::Result<Role> {
    set_child_subreaper(Some(getpid()))?;
    let has_keeper = std::env::var_os(HAS_KEEPER_VARIABLE).is_some();
    if has_keeper { prepare_worker().map(Role::Worker) } else { run_keeper().map(Role::Keeper) }
}

/// Kills all descendants of this process and prevents new ones. A worker does this right before it ends. Blocks. Returns whether
/// nothing is left.
pub fn kill_everything() -> bool {
    process::close();
    kill_children()
}

/// From now on each signal that asks the worker to stop writes a byte to this stream, and has no other effect. Those that were
/// ignored when this process was started stay so.
fn forward_signals(stream: &UnixStream) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| *signal == SIGTERM || !is_ignored(*signal)) {
        signal_hook::low_level::pipe::register(signal, stream.try_clone()?)?;
    }
    Ok(())
}

fn run_keeper() -> io::Result<WorkerEnd> {
    // Not the worker's name, so that killing by name does not kill both.
    set_name(c"tq-keeper")?;
    let (requests, worker_stream) = UnixStream::pair()?;
    forward_signals(&requests)?;
    // A signal to the whole group ends the worker. The keeper has to survive it and kill what is left.
    for signal in [SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let runs = WatchedRuns::watch(requests.try_clone()?);
    let mut worker = start_worker(worker_stream)?;
    let status = worker.wait()?;
    let has_survivors = !kill_children();
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX);
    Ok(WorkerEnd { pid: worker.id(), code, signal: status.signal(), left: runs.left(), has_survivors })
}

fn start_worker(worker_stream: UnixStream) -> io::Result<std::process::Child> {
    let mut arguments = std::env::args_os();
    // The running program, even if its file was replaced by another version.
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments).env(HAS_KEEPER_VARIABLE, "1").stdin(Stdio::from(std::os::fd::OwnedFd::from(worker_stream)));
    command.spawn()
}

fn prepare_worker() -> io::Result<StopRequests> {
    // Otherwise `ps` would show `exe`, because the worker is started as /proc/self/exe.
    set_name(c"taskqueue")?;
    let from_keeper = take_stdin_socket()?;
    let (from_signals, signals) = UnixStream::pair()?;
    forward_signals(&signals)?;
    StopRequests::new(from_keeper, from_signals)
}

/// The end of the worker closes its stream at once; only a process that has inherited it could keep it open.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A run that a worker has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftRun {
    pub task_id: TaskId,
    pub run_id: RunId,
}

/// Tells the keeper which runs there are.
#[derive(Clone, Debug)]
pub struct ActiveRuns(Arc<UnixStream>);

impl ActiveRuns {
    /// The stream does not block.
    pub(super) fn new(to_keeper: UnixStream) -> Self {
        Self(Arc::new(to_keeper))
    }

    pub fn began(&self, task_id: TaskId, run_id: RunId) {
        self.write(&format!("+ {run_id} {task_id}\n"));
    }

    pub fn ended(&self, run_id: RunId) {
        self.write(&format!("- {run_id}\n"));
    }

    /// Never waits: a keeper that is stopped (Ctrl-Z) does not read. Of a run whose beginning it does not know the lease ends by
    /// itself; one whose end it does not know is refused by the server.
    fn write(&self, line: &str) {
        drop((&*self.0).write(line.as_bytes()));
    }
}

/// The runs of a worker, read by a thread of the keeper.
pub(super) struct WatchedRuns {
    active: Arc<Mutex<BTreeMap<RunId, TaskId>>>,
    closed: Receiver<()>,
}

impl WatchedRuns {
    pub(super) fn watch(from_worker: UnixStream) -> Self {
        let active = Arc::<Mutex<BTreeMap<RunId, TaskId>>>::default();
        let (runs, (close, closed)) = (Arc::clone(&active), channel());
        std::thread::spawn(move || {
            for line in BufReader::new(from_worker).lines() {
                let Ok(line) = line else { break };
                note(&mut runs.lock(), &line);
            }
            drop(close);
        });
        Self { active, closed }
    }

    /// Returns the runs that are left after the end of the worker.
    pub(super) fn left(&self) -> Vec<LeftRun> {
        let _ = self.closed.recv_timeout(CLOSE_TIMEOUT);
        let active = self.active.lock();
        active.iter().map(|(run_id, task_id)| LeftRun { task_id: *task_id, run_id: *run_id }).collect()
    }
}

/// Follows one line. A worker that was killed may have left half of one.
fn note(active: &mut BTreeMap<RunId, TaskId>, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["+", run_id, task_id] => active.extend(RunId::parse(run_id).zip(TaskId::parse(task_id))),
        ["-", run_id] => drop(RunId::parse(run_id).and_then(|run_id| active.remove(&run_id))),
        _ => {}
    }
}

/// Within this time the signals of one event have reached both keeper and worker.
const SAME_EVENT: Duration = Duration::from_millis(500);

/// Signals that follow this fast are one request: `timeout` sends its signal to the command and then to the whole group.
const BURST: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct StopRequests {
    /// Until the first call of `next`; before that there may be no runtime.
    unregistered: Option<(UnixStream, UnixStream)>,
    streams: Option<(tokio::net::UnixStream, tokio::net::UnixStream)>,
    duplicates: DuplicateFilter,
    /// Tells the keeper, over the same stream, which runs there are.
    pub active_runs: ActiveRuns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestSource {
    Keeper,
    Signal,
}

impl StopRequests {
    pub(super) fn new(keeper: UnixStream, signals: UnixStream) -> io::Result<Self> {
        keeper.set_nonblocking(true)?;
        signals.set_nonblocking(true)?;
        let active_runs = ActiveRuns::new(keeper.try_clone()?);
        let unregistered = Some((keeper, signals));
        Ok(Self { unregistered, streams: None, duplicates: DuplicateFilter::default(), active_runs })
    }

    /// Waits for the next request. `None` means that the keeper has ended: the worker has to call
    /// [`kill_everything`] and exit. No request is lost when this future is dropped.
    pub async fn next(&mut self) -> Option<()> {
        if let Some((keeper, signals)) = self.unregistered.take() {
            let register = tokio::net::UnixStream::from_std;
            self.streams = Some((register(keeper).ok()?, register(signals).ok()?));
        }
        let (keeper, signals) = self.streams.as_ref()?;
        loop {
            let source = tokio::select! {
                read = read_byte(keeper) => read.map(|()| RequestSource::Keeper),
                read = read_byte(signals) => read.map(|()| RequestSource::Signal),
            };
            if self.duplicates.is_new(source?, Instant::now()) {
                return Some(());
            }
        }
    }
}

/// Waits for one byte; `None` when the other end is closed.
async fn read_byte(stream: &tokio::net::UnixStream) -> Option<()> {
    loop {
        stream.readable().await.ok()?;
        match stream.try_read(&mut [0]) {
            Ok(1..) => return Some(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return None,
        }
    }
}

/// Recognises requests that come from the same event as an earlier one.
#[derive(Debug, Default)]
struct DuplicateFilter {
    /// One source and the times of its requests that have not arrived from the other source yet.
    unpaired: Option<(RequestSource, Vec<Instant>)>,
    /// The time of the last request that counted.
    counted: Option<Instant>,
}

impl DuplicateFilter {
    fn is_new(&mut self, source: RequestSource, now: Instant) -> bool {
        let (owner, times) = self.unpaired.get_or_insert_with(|| (source, Vec::new()));
        times.retain(|time| now.saturating_duration_since(*time) <= SAME_EVENT);
        if *owner != source && !times.is_empty() {
            times.remove(0);
            return false;
        }
        if self.counted.is_some_and(|counted| now.saturating_duration_since(counted) <= BURST) {
            return false;
        }
        self.counted = Some(now);
        *owner = source;
        times.push(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_and_did_not_end_is_left() {
        let (keeper, worker) = UnixStream::pair().unwrap();
        let (watched, runs) = (WatchedRuns::watch(keeper), ActiveRuns::new(worker));
        let task = |number: u8| TaskId::parse(&format!("t_00000000000{number}")).unwrap();
        let run = |number: u8| RunId::parse(&format!("r_00000000000{number}")).unwrap();
        (1..=3).for_each(|number| runs.began(task(number), run(number)));
        runs.ended(run(2));
        runs.write("+ r_0000");
        drop(runs);
        let left = [1, 3].map(|number| LeftRun { task_id: task(number), run_id: run(number) });
        assert_eq!(watched.left(), left);
    }

    /// Returns the requests that count, each given as its source and its time in milliseconds.
    fn counted(requests: &[(RequestSource, u64)]) -> Vec<bool> {
        let (mut duplicates, start) = (DuplicateFilter::default(), Instant::now());
        requests
            .iter()
            .map(|(source, millis)| duplicates.is_new(*source, start + Duration::from_millis(*millis)))
            .collect()
    }

    #[test]
    fn one_event_is_one_request_and_requests_by_one_way_or_far_apart_all_count() {
        use RequestSource::{Keeper, Signal};
        assert_eq!(counted(&[(Keeper, 0), (Signal, 1)]), [true, false]);
        assert_eq!(counted(&[(Signal, 0), (Keeper, 1), (Signal, 102), (Keeper, 103)]), [true, false, true, false]);
        assert_eq!(counted(&[(Signal, 0), (Signal, 100), (Keeper, 101), (Keeper, 102)]), [true, true, false, false]);
        // It reaches one of them twice.
        assert_eq!(counted(&[(Keeper, 0), (Keeper, 0), (Signal, 1)]), [true, false, false]);
        assert_eq!(counted(&[(Keeper, 0), (Signal, 0), (Keeper, 1)]), [true, false, false]);
        assert_eq!(counted(&[(Signal, 0), (Keeper, 1), (Keeper, 2), (Signal, 300), (Keeper, 301)])[3..], [true, false]);
        assert_eq!(counted(&[(Keeper, 0), (Keeper, 100), (Keeper, 200)]), [true, true, true]);
        assert_eq!(counted(&[(Signal, 0), (Keeper, 501), (Signal, 1200)]), [true, true, true]);
    }

    #[tokio::test]
    async fn bytes_are_requests_and_the_end_of_the_keeper_is_the_end() {
        use std::io::Write;
        let (from_keeper, mut keeper) = UnixStream::pair().unwrap();
        let (from_signals, _signals) = UnixStream::pair().unwrap();
        let mut requests = StopRequests::new(from_keeper, from_signals).unwrap();
        keeper.write_all(b"X").unwrap();
        assert_eq!(requests.next().await, Some(()));
        drop(keeper);
        assert_eq!(requests.next().await, None);
    }
}
