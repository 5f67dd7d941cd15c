//! The processes of one run: the command and everything that it has spawned. They end by themselves or are stopped. Orphans become
//! children of the supervisor, so when it has no child left it has no descendant.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, wait};

use super::channel::Channel;
use super::messages::{NotStarted, Reply, Request, RunEnd, StartRequest};
use super::spawn::{Terminal, spawn};
use crate::process::proc::{self, Entry};
use crate::stop::RunControl;

/// The grace time of processes that outlive the command: enough to remove a temporary file. The command has ended, so the run should
/// end soon.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);

/// How long processes may take to end after SIGKILL. Only those that hang inside the kernel (state D) take longer.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Pauses between two SIGKILLs. They double, because most processes end within milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// How often /proc is read to find the processes outside the group: one that forks meanwhile is found by the next reading. One that
/// forks for ever is killed after the grace time.
const SCANS: usize = 8;

#[derive(Clone, Copy)]
enum Stage {
    Running,
    /// SIGTERM was sent; SIGKILL follows at this time.
    Stopping(Instant),
    /// SIGKILL was sent, and is sent again after each pause until this time.
    Killing(Instant, Duration),
}

pub(super) struct ProcessTree {
    /// The pid of the command, which is also the id of its process group.
    leader: i32,
    grace: Duration,
    stage: Stage,
    requested: RunControl,
    /// The exit status of the leader, as wait(2) gave it.
    status: Option<i32>,
    /// Whether the leader ended after it was asked to.
    was_stopped: bool,
    /// The processes that got the SIGTERM of the stop.
    told: HashSet<i32>,
}

impl ProcessTree {
    /// Starts a command, waits for the end of all its processes, and sends the replies to the worker.
    ///
    /// # Errors
    ///
    /// When the worker has closed the socket.
    pub(super) fn supervise(channel: &mut Channel, start: &StartRequest) -> io::Result<()> {
        let files = channel.take_files();
        let spawned = match spawn(start, files) {
            Ok(spawned) => spawned,
            Err(NotStarted { error, is_of_command }) => {
                let errno = error.raw_os_error().unwrap_or(errno_of(&error).raw_os_error());
                return channel.reply(&Reply::NotStarted { errno, is_of_command }, &[]);
            }
        };
        if let Some(Terminal { pty, .. }) = &spawned.terminal {
            channel.reply(&Reply::Terminal, &[pty.as_fd()])?;
        }
        let (leader, grace) = (spawned.leader, start.grace);
        let mut tree = Self {
            leader,
            grace,
            stage: Stage::Running,
            requested: RunControl::Continue,
            status: None,
            was_stopped: false,
            told: HashSet::new(),
        };
        let note = tree.wait_until_empty(channel)?;
        drop(spawned.terminal);
        channel.reply(&Reply::Ended(RunEnd { status: tree.status, was_stopped: tree.was_stopped, note }), &[])
    }

    /// Waits until no process is left; stops and kills them where needed. Returns a note about processes that cannot be killed.
    fn wait_until_empty(&mut self, channel: &mut Channel) -> io::Result<Option<String>> {
        while self.reap() {
            while let Some(request) = channel.try_next()? {
                self.handle(&request);
            }
            if self.status.is_some() && matches!(self.stage, Stage::Running) {
                self.stop(self.grace.min(LEFTOVER_GRACE));
            }
            let now = Instant::now();
            let limit = match self.stage {
                Stage::Running => None,
                Stage::Stopping(deadline) if now < deadline => {
                    self.tell_orphans();
                    Some(deadline - now)
                }
                Stage::Stopping(_) => {
                    self.kill();
                    continue;
                }
                Stage::Killing(deadline, pause) if now < deadline => {
                    // Repeated, because the children of killed processes become our children.
                    proc::signal_children(Signal::KILL);
                    self.stage = Stage::Killing(deadline, LONGEST_PAUSE.min(pause * 2));
                    Some(pause)
                }
                Stage::Killing(..) => return Ok(Some(unkillable())),
            };
            channel.wait(limit)?;
        }
        Ok(None)
    }

    /// Reaps every child that has ended. Returns whether others are left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if Pid::as_raw(Some(pid)) == self.leader && self.status.is_none() => {
                    self.status = Some(status.as_raw());
                    self.was_stopped = self.requested > RunControl::Continue;
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn handle(&mut self, request: &Request) {
        match (request, self.stage) {
            (Request::Stop, Stage::Running) => self.stop(self.grace),
            (Request::Kill, Stage::Running | Stage::Stopping(_)) => self.kill(),
            _ => {}
        }
        let order = if *request == Request::Kill { RunControl::Kill } else { RunControl::Stop };
        self.requested = self.requested.max(order);
    }

    fn stop(&mut self, grace: Duration) {
        let before = proc::descendants();
        // The group comes first: a process that leaves it before the signal is found outside, and one that leaves later has got it.
        self.signal_group(Signal::TERM, &before);
        self.signal_group(Signal::CONT, &before);
        for _ in 0..SCANS {
            let mut outside = proc::descendants();
            outside.retain(|entry| entry.group != self.leader);
            if !self.tell(outside.into_iter().map(|entry| entry.pid)) {
                break;
            }
        }
        self.told.extend(before.iter().map(|entry| entry.pid));
        self.stage = Stage::Stopping(Instant::now() + grace);
    }

    /// Stops the processes that have outlived their parents and were not told. A shell that starts a command blocks signals meanwhile:
    /// if the stop comes then, the shell ends after the start, and the command has missed the signal to its group.
    fn tell_orphans(&mut self) {
        self.tell(proc::children());
    }

    /// Sends SIGTERM to the processes that did not get it yet. Returns whether there are any.
    fn tell(&mut self, pids: impl IntoIterator<Item = i32>) -> bool {
        let missed: Vec<i32> = pids.into_iter().filter(|pid| self.told.insert(*pid)).collect();
        for pid in &missed {
            proc::signal(*pid, Signal::TERM);
            // A process that was stopped with SIGSTOP or by its terminal would not handle SIGTERM otherwise.
            proc::signal(*pid, Signal::CONT);
        }
        !missed.is_empty()
    }

    fn kill(&mut self) {
        // A signal to a group misses no fork, so this ends most processes that fork faster than /proc can be read.
        self.signal_group(Signal::KILL, &[]);
        self.stage = Stage::Killing(Instant::now() + KILL_TIMEOUT, FIRST_PAUSE);
    }

    /// Sends a signal to the group, if its id cannot have been reused: the leader was not reaped yet, or one of the processes is in the
    /// group.
    fn signal_group(&self, signal: Signal, processes: &[Entry]) {
        if self.status.is_none() || processes.iter().any(|entry| entry.group == self.leader) {
            let _ = Pid::from_raw(self.leader).map(|group| kill_process_group(group, signal));
        }
    }
}

fn unkillable() -> String {
    let list: Vec<String> =
        proc::descendants().iter().map(|entry| format!("{} (state {})", entry.pid, entry.state)).collect();
    format!("processes that do not end even when they are killed: {}", list.join(", "))
}

/// The errno for an error that std has found without a system call.
fn errno_of(error: &io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::NotFound => Errno::NOENT,
        _ => Errno::INVAL,
    }
}
