//! Servers as processes of ours: started so that they end with us, watched, signalled.

use std::fs;
use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::{PATIENCE, within};

type Order = (Command, Sender<io::Result<Child>>);

/// Starts a process from a thread that lives as long as we do: the kernel means the thread when it tells a process that
/// its parent ended, and the thread of a test ends long before a server that others use too.
fn spawn(command: Command) -> io::Result<Child> {
    static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (orders, received) = channel::<Order>();
        thread::spawn(move || {
            for (mut command, reply) in received {
                // The one who ordered waits for the reply.
                let _ = reply.send(command.spawn());
            }
        });
        orders
    });
    let (reply, answer) = channel();
    orders.send((command, reply)).expect("the starting thread never ends");
    answer.recv().expect("the starting thread never ends")
}

/// A server, ended (and reaped) at the latest when dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(command: Command) -> Self {
        let told = format!("{command:?}");
        Self(spawn(command).unwrap_or_else(|error| panic!("cannot start {told}: {error}")))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("it is our child").is_some()
    }

    /// Waits for the end by itself, and says whether it was a good one.
    pub(crate) fn succeeded(mut self) -> bool {
        self.0.wait().expect("it is our child").success()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // Not reaped yet, so the number still means this process, be it dead or alive.
        kill_process(Pid::from_child(&self.0), signal).expect("we may signal what we started");
    }

    /// Signals, and waits for the end. One that does not end is killed, and that is a failure.
    pub(crate) fn end(mut self, signal: Signal) {
        if self.has_ended() {
            return;
        }
        self.signal(signal);
        let ended = within(PATIENCE, || self.has_ended());
        assert!(ended || thread::panicking(), "process {} did not end by {signal:?}", self.pid());
    }

    /// Kills it together with all its children, at one moment: held still, it can neither start nor miss one.
    pub(crate) fn kill_all(self) {
        self.signal(Signal::STOP);
        let children = children_of(self.pid());
        for child in &children {
            // A child of a stopped parent is not reaped, so its number cannot mean another process.
            let _ = Pid::from_raw(*child as i32).map(|pid| kill_process(pid, Signal::KILL));
        }
        self.end(Signal::KILL);
        let all_gone = within(PATIENCE, || !children.iter().any(|child| is_alive(*child)));
        assert!(all_gone, "killed processes are still there: {children:?}");
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
    // The name stands in parentheses and may hold anything.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Whether a process still does anything. One that is dead and that nobody asked for yet does not.
pub fn is_alive(pid: u32) -> bool {
    state_and_parent(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

fn children_of(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("Linux").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| state_and_parent(*pid).is_some_and(|(_, of)| of == parent)).collect()
}
