//! Server processes, started so that they end with the test process.

use std::fs;
use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::{TIMEOUT, within};

type SpawnRequest = (Command, Sender<io::Result<Child>>);

/// Starts a process from a thread that runs as long as this process: the death signal is sent when the starting thread
/// ends, and the thread of a test ends before a shared server does.
fn spawn(command: Command) -> io::Result<Child> {
    static REQUESTS: OnceLock<Sender<SpawnRequest>> = OnceLock::new();
    let requests = REQUESTS.get_or_init(|| {
        let (requests, received) = channel::<SpawnRequest>();
        thread::spawn(move || {
            for (mut command, reply) in received {
                let _ = reply.send(command.spawn());
            }
        });
        requests
    });
    let (reply, answer) = channel();
    requests.send((command, reply)).expect("the starting thread never ends");
    answer.recv().expect("the starting thread never ends")
}

/// A process, killed and reaped when dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(command: Command) -> Self {
        let text = format!("{command:?}");
        Self(spawn(command).unwrap_or_else(|error| panic!("cannot start {text}: {error}")))
    }

    /// A process that answers; nothing if it ends instead, or does not answer within a minute.
    pub(crate) fn answering(command: Command, mut answers: impl FnMut() -> bool) -> Option<Self> {
        let (mut process, mut has_answered) = (Self::start(command), false);
        within(TIMEOUT, || {
            has_answered = answers();
            has_answered || process.has_ended()
        });
        // Another process on its port may answer too, but then this one has ended.
        (has_answered && !process.has_ended()).then_some(process)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("it is our child").is_some()
    }

    /// Waits for the end; returns whether it was successful.
    pub(crate) fn succeeded(mut self) -> bool {
        self.0.wait().expect("it is our child").success()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // Not reaped yet, so the id still belongs to this process.
        kill_process(Pid::from_child(&self.0), signal).expect("we may signal what we started");
    }

    /// Sends a signal and waits for the end. Panics if the process does not end.
    pub(crate) fn end(mut self, signal: Signal) {
        if self.has_ended() {
            return;
        }
        self.signal(signal);
        let ended = within(TIMEOUT, || self.has_ended());
        assert!(ended || thread::panicking(), "process {} did not end by {signal:?}", self.pid());
    }

    /// Kills it with all its children at once: while it is stopped, it cannot start or reap a child.
    pub(crate) fn kill_all(self) {
        self.signal(Signal::STOP);
        let children = children_of(self.pid());
        for child in &children {
            // A child of a stopped parent is not reaped, so its id is not reused.
            let _ = Pid::from_raw(*child as i32).map(|pid| kill_process(pid, Signal::KILL));
        }
        self.end(Signal::KILL);
        let all_ended = within(TIMEOUT, || !children.iter().any(|child| is_alive(*child)));
        assert!(all_ended, "killed processes are still running: {children:?}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The state and the parent of a process.
fn state_and_parent(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Whether a process runs. A zombie does not.
pub fn is_alive(pid: u32) -> bool {
    state_and_parent(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

fn children_of(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("Linux").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| state_and_parent(*pid).is_some_and(|(_, of)| of == parent)).collect()
}
