//! Keeper and worker as real processes: when either is killed, nothing is left. With `--subject` this program is itself a worker with a
//! keeper, which starts the children of the test.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "in a test a failure is a panic, and this one reports itself"
)]

use std::fs;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, set_child_subreaper};
use taskqueue_worker::keeper::{HAS_KEEPER_VARIABLE, Role, StopRequests, kill_everything, start};

/// The first argument of the process under test.
const SUBJECT: &str = "--subject";

/// The exit code of the worker when its keeper was killed.
const KEEPER_LOST: u8 = 41;

const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, folder] = arguments.as_slice()
        && first == SUBJECT
    {
        return subject(Path::new(folder));
    }
    // Orphans of the tests become children of this process.
    set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let tests: [(&str, fn()); 9] = [
        ("killing_the_worker_of_a_small_keeper_leaves_nothing", killing_the_worker_of_a_small_keeper_leaves_nothing),
        ("killing_the_keeper_leaves_nothing", killing_the_keeper_leaves_nothing),
        ("the_exit_code_of_the_worker_is_passed_on", the_exit_code_of_the_worker_is_passed_on),
        ("requests_reach_the_worker_through_its_keeper", requests_reach_the_worker_through_its_keeper),
        ("requests_reach_the_worker_directly", requests_reach_the_worker_directly),
        ("a_signal_to_both_is_one_request", a_signal_to_both_is_one_request),
        ("a_quit_from_the_terminal_leaves_nothing", a_quit_from_the_terminal_leaves_nothing),
        ("a_hangup_that_was_ignored_stays_ignored", a_hangup_that_was_ignored_stays_ignored),
        ("children_inherit_nothing_of_the_keeper", children_inherit_nothing_of_the_keeper),
    ];
    let wanted = |name: &str| arguments.iter().filter(|word| !word.starts_with('-')).all(|word| name.contains(word));
    for (name, test) in tests.into_iter().filter(|(name, _)| wanted(name)) {
        test();
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

/// A worker that starts two children, one of them a daemon, counts requests, and ends with their number at the third.
#[expect(clippy::zombie_processes, reason = "what is left of them is the subject of these tests")]
fn subject(folder: &Path) -> ExitCode {
    let requests = match start().unwrap() {
        Role::Keeper(end) => return ExitCode::from(end.code),
        Role::Worker(requests) => requests,
    };
    for script in ["echo $$ >child; exec sleep 1000", "setsid sh -c 'echo $$ >daemon; exec sleep 1000' & sleep 1000"] {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(folder).process_group(0).env_remove(HAS_KEEPER_VARIABLE);
        command.stdin(Stdio::null()).spawn().unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let code = runtime.block_on(count(requests, folder));
    ExitCode::from(code)
}

async fn count(mut requests: StopRequests, folder: &Path) -> u8 {
    fs::write(folder.join("worker"), format!("{}\n", std::process::id())).unwrap();
    for number in 1..=3 {
        if requests.next().await.is_none() {
            kill_everything();
            return KEEPER_LOST;
        }
        let mut log = fs::OpenOptions::new().create(true).append(true).open(folder.join("requests")).unwrap();
        writeln!(log, "{number}").unwrap();
    }
    3
}

struct Subject {
    folder: tempfile::TempDir,
    keeper: Child,
    pids: Vec<i32>,
}

/// Waits until the function returns a value.
fn eventually<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "timed out waiting for: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

fn stat(pid: i32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/stat")).ok()
}

fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z'))
}

fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim().to_owned()
}

impl Subject {
    fn start(wrapper: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The tests may run with ignored signals, and ignored signals are inherited.
        let mut words: Vec<PathBuf> = vec!["env".into(), "--default-signal=HUP,INT,QUIT,TERM".into()];
        words.extend(wrapper.iter().map(PathBuf::from));
        words.extend([std::env::current_exe().unwrap(), SUBJECT.into(), folder.path().into()]);
        let mut command = Command::new(&words[0]);
        let keeper = command.args(&words[1..]).process_group(0).spawn().unwrap();
        let mut subject = Self { folder, keeper, pids: Vec::new() };
        subject.pids = ["worker", "child", "daemon"].map(|file| subject.number(file)).to_vec();
        assert_eq!((name(subject.keeper()).as_str(), name(subject.worker()).as_str()), ("tq-keeper", "taskqueue"));
        subject
    }

    fn number(&self, file: &str) -> i32 {
        let path = self.folder.path().join(file);
        eventually(file, || fs::read_to_string(&path).ok()?.strip_suffix('\n')?.parse().ok())
    }

    fn keeper(&self) -> i32 {
        self.keeper.id().try_into().unwrap()
    }

    fn worker(&self) -> i32 {
        self.pids[0]
    }

    fn count(&self) -> usize {
        fs::read_to_string(self.folder.path().join("requests")).unwrap_or_default().lines().count()
    }

    fn wait_for_requests(&self, count: usize) {
        eventually("requests", || (self.count() >= count).then_some(()));
        assert_eq!(self.count(), count);
        // What comes within 50 milliseconds is the same request.
        let counted = Instant::now();
        eventually("the next moment", || (counted.elapsed() > Duration::from_millis(60)).then_some(()));
    }

    /// Waits for the end of the keeper.
    fn end(&mut self) -> ExitStatus {
        eventually("the keeper ends", || self.keeper.try_wait().unwrap())
    }

    #[track_caller]
    fn assert_nothing_is_left(&self) {
        assert_eq!(self.pids.iter().filter(|pid| is_alive(**pid)).count(), 0, "{:?}", self.pids);
    }
}

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn killing_the_worker_of_a_small_keeper_leaves_nothing() {
    let mut subject = Subject::start(&[]);
    let status = fs::read_to_string(format!("/proc/{}/status", subject.keeper())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim().to_owned();
    let kib: u32 = resident.trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 4 * 1024, "{resident}");
    send(subject.worker(), Signal::KILL);
    assert_eq!(subject.end().code(), Some(128 + 9));
    subject.assert_nothing_is_left();
}

fn killing_the_keeper_leaves_nothing() {
    let mut subject = Subject::start(&[]);
    send(subject.keeper(), Signal::KILL);
    assert_eq!(subject.end().signal(), Some(9));
    eventually("all is gone", || subject.pids.iter().all(|pid| !is_alive(*pid)).then_some(()));
}

/// A subject that was asked to stop three times in this way, and has counted each.
fn asked_three_times(ask: impl Fn(&Subject)) -> Subject {
    let subject = Subject::start(&[]);
    for count in 1..=3 {
        ask(&subject);
        subject.wait_for_requests(count);
    }
    subject
}

fn the_exit_code_of_the_worker_is_passed_on() {
    let mut subject = asked_three_times(|subject| send(subject.keeper(), Signal::TERM));
    assert_eq!(subject.end().code(), Some(3));
    subject.assert_nothing_is_left();
}

fn requests_reach_the_worker_through_its_keeper() {
    let mut subject = Subject::start(&[]);
    for (count, signal) in [(1, Signal::INT), (2, Signal::HUP), (3, Signal::TERM)] {
        send(subject.keeper(), signal);
        subject.wait_for_requests(count);
    }
    subject.end();
}

fn requests_reach_the_worker_directly() {
    asked_three_times(|subject| send(subject.worker(), Signal::TERM)).end();
}

fn a_signal_to_both_is_one_request() {
    let to_both =
        |subject: &Subject| kill_process_group(Pid::from_raw(subject.keeper()).unwrap(), Signal::INT).unwrap();
    assert_eq!(asked_three_times(to_both).end().code(), Some(3));
}

fn a_quit_from_the_terminal_leaves_nothing() {
    let mut subject = Subject::start(&[]);
    kill_process_group(Pid::from_raw(subject.keeper()).unwrap(), Signal::QUIT).unwrap();
    assert_eq!(subject.end().code(), Some(128 + 3));
    subject.assert_nothing_is_left();
}

fn a_hangup_that_was_ignored_stays_ignored() {
    let mut subject = Subject::start(&["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]);
    send(subject.keeper(), Signal::HUP);
    send(subject.worker(), Signal::HUP);
    send(subject.keeper(), Signal::TERM);
    subject.wait_for_requests(1);
    send(subject.worker(), Signal::KILL);
    subject.end();
    subject.assert_nothing_is_left();
}

fn children_inherit_nothing_of_the_keeper() {
    let mut subject = Subject::start(&[]);
    let child = subject.pids[1];
    let descriptors =
        fs::read_dir(format!("/proc/{child}/fd")).unwrap().map(|entry| fs::read_link(entry.unwrap().path()));
    let sockets = descriptors.filter(|target| target.as_ref().unwrap().starts_with("socket:"));
    assert_eq!(sockets.count(), 0);
    let environment = fs::read(format!("/proc/{child}/environ")).unwrap();
    assert!(!String::from_utf8_lossy(&environment).contains(HAS_KEEPER_VARIABLE));
    let caught = fs::read_to_string(format!("/proc/{child}/status")).unwrap();
    let ignored = caught.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim().to_owned();
    assert_eq!(u64::from_str_radix(&ignored, 16).unwrap() & 0x4003, 0, "HUP, INT and TERM are as they were");
    send(subject.worker(), Signal::KILL);
    subject.end();
}
