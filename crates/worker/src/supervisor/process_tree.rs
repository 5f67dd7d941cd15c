//! One run below its supervisor: it comes to its end by itself or by order, and with everything that it has started. Since
//! orphans come to the supervisor, it has no descendant when it has no child.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, wait};

use super::channel::Channel;
use super::messages::{Reply, Request, RunEnd, Start};
use super::spawn::{self, Terminal};
use crate::process::proc::{self, Entry};
use crate::stop::Order;

/// How long processes that outlive their leader may take to end after SIGTERM: enough to remove a temporary file. The run
/// has ended, so nobody should have to wait for them long.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);

/// How long processes may take to end after SIGKILL. Only those that hang inside the kernel (state D) need any time.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// Pauses between attempts to kill what is left: they double, so that the usual milliseconds are not overslept.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy)]
enum Stage {
    Running,
    /// SIGTERM was sent; SIGKILL follows then.
    Stopping(Instant),
    /// SIGKILL was sent, and is sent again after the pause; the waiting ends then.
    Killing(Instant, Duration),
}

pub(super) struct ProcessTree {
    /// The command, whose number is also that of its group.
    leader: i32,
    grace: Duration,
    stage: Stage,
    heeded: Order,
    /// How the leader ended, as wait(2) gave it.
    status: Option<i32>,
    /// Whether the leader had been ordered to end when it did.
    was_stopped: bool,
}

impl ProcessTree {
    /// Runs a command from its start to the end of everything that it has started, and tells the worker about both.
    ///
    /// # Errors
    ///
    /// When the worker is gone.
    pub(super) fn supervise(channel: &mut Channel, start: &Start) -> io::Result<()> {
        let files = channel.take_files();
        let started = match spawn::start(start, files) {
            Ok(started) => started,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(unnamed(&error).raw_os_error());
                return channel.reply(&Reply::NotStarted(errno), &[]);
            }
        };
        if let Some(Terminal { pty, .. }) = &started.terminal {
            channel.reply(&Reply::Terminal, &[pty.as_fd()])?;
        }
        let (leader, grace) = (started.leader, start.grace);
        let mut run =
            Self { leader, grace, stage: Stage::Running, heeded: Order::Run, status: None, was_stopped: false };
        let unkillable = run.attend(channel)?;
        drop(started.terminal);
        channel.reply(&Reply::Ended(RunEnd { status: run.status, was_stopped: run.was_stopped, unkillable }), &[])
    }

    /// Waits until nothing of the run is left, and sees to it where it has to. Gives what cannot be killed.
    fn attend(&mut self, channel: &mut Channel) -> io::Result<Option<String>> {
        while self.reap() {
            while let Some(request) = channel.arrived()? {
                self.heed(&request);
            }
            if self.status.is_some() && matches!(self.stage, Stage::Running) {
                self.stop(self.grace.min(LEFTOVER_GRACE));
            }
            let now = Instant::now();
            let longest = match self.stage {
                Stage::Running => None,
                Stage::Stopping(deadline) if now < deadline => Some(deadline - now),
                Stage::Stopping(_) => {
                    self.kill();
                    continue;
                }
                Stage::Killing(deadline, pause) if now < deadline => {
                    // Again and again: what its victims have started comes to us when they are gone.
                    proc::signal_children(Signal::KILL);
                    self.stage = Stage::Killing(deadline, LONGEST_PAUSE.min(pause * 2));
                    Some(pause)
                }
                Stage::Killing(..) => return Ok(Some(unkillable())),
            };
            channel.wait(longest)?;
        }
        Ok(None)
    }

    /// Reaps everything that has ended. Says whether something is left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if Pid::as_raw(Some(pid)) == self.leader && self.status.is_none() => {
                    self.status = Some(status.as_raw());
                    self.was_stopped = self.heeded > Order::Run;
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn heed(&mut self, request: &Request) {
        match (request, self.stage) {
            (Request::Stop, Stage::Running) => self.stop(self.grace),
            (Request::Kill, Stage::Running | Stage::Stopping(_)) => self.kill(),
            _ => {}
        }
        let order = if *request == Request::Kill { Order::Kill } else { Order::Stop };
        self.heeded = self.heeded.max(order);
    }

    fn stop(&mut self, grace: Duration) {
        self.signal(Signal::TERM);
        // A process that was stopped with SIGSTOP or by its terminal would not hear of it otherwise.
        self.signal(Signal::CONT);
        self.stage = Stage::Stopping(Instant::now() + grace);
    }

    fn kill(&mut self) {
        // A signal to a group misses no fork, so this ends most of what starts processes faster than they can be counted.
        self.signal_group(Signal::KILL, &[]);
        self.stage = Stage::Killing(Instant::now() + KILL_PATIENCE, FIRST_PAUSE);
    }

    /// Sends a signal to the group and to those that have left it.
    fn signal(&self, signal: Signal) {
        let members = members();
        self.signal_group(signal, &members);
        for entry in members.iter().filter(|entry| entry.group != self.leader) {
            proc::signal(entry.pid, signal);
        }
    }

    /// Sends a signal to the group, if it is sure to be that of the run: its number is not given to another process while the
    /// leader has not been reaped or somebody is in the group.
    fn signal_group(&self, signal: Signal, members: &[Entry]) {
        if self.status.is_none() || members.iter().any(|entry| entry.group == self.leader) {
            let _ = Pid::from_raw(self.leader).map(|group| kill_process_group(group, signal));
        }
    }
}

/// What is alive of the run.
fn members() -> Vec<Entry> {
    let below = proc::descendants(&proc::all()).into_iter().map(|(entry, _)| entry);
    below.filter(|entry| entry.is_alive).collect()
}

fn unkillable() -> String {
    let list: Vec<String> = members().iter().map(|entry| format!("{} (state {})", entry.pid, entry.state)).collect();
    format!("processes that do not end even when they are killed: {}", list.join(", "))
}

/// The number of an error that std has found without asking the kernel.
fn unnamed(error: &io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::NotFound => Errno::NOENT,
        _ => Errno::INVAL,
    }
}
