//! Which processes belong to which run, and what is left of one. A process belongs to the run whose leader it descends
//! from, whose process group it is in, or whose id it was started with. When to signal what is decided in `ending.rs`.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpid};
use taskqueue_core::ids::RunId;

use super::proc::{self, Entry};

/// The variable that tells a child its run, and us the run of a process that has left its group and its parents.
pub const RUN_ID_VARIABLE: &str = "TASKQUEUE_RUN_ID";

/// Children, and with them this table, belong to the process: strays come to it, whichever part of it started them.
static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

#[derive(Debug, Default)]
struct Table {
    /// The runs whose leaders have not been reaped yet, by the leader.
    leaders: HashMap<i32, RunId>,
    runs: HashSet<RunId>,
    /// How many children are just being started: such a child exists before it can be told from a stray.
    starting: usize,
    /// Whether nothing is to be started any more.
    is_closed: bool,
}

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run in the table. Whatever becomes of it, its group does not outlive this.
#[derive(Debug)]
pub(crate) struct Place {
    run_id: RunId,
    /// The leader, which is also the number of the group.
    leader: i32,
    is_over: bool,
}

/// What a look found.
#[derive(Debug)]
pub(crate) struct Left {
    /// Whether there can be nothing any more. Without that, nothing alive may mean that it was missed: processes that start
    /// and end all the time are.
    pub(crate) is_gone: bool,
    /// What is alive of the run.
    pub(crate) members: Vec<Entry>,
    /// Whether there are processes that came to us from anywhere.
    pub(crate) has_strays: bool,
}

/// Starts a child with `spawn` and enters it as the leader of its run.
pub(crate) fn enter<T>(run_id: RunId, spawn: impl FnOnce() -> io::Result<(T, i32)>) -> io::Result<(T, Place)> {
    {
        let mut table = table();
        if table.is_closed {
            return Err(io::Error::other("this worker is ending"));
        }
        table.starting += 1;
    }
    let spawned = spawn();
    let mut table = table();
    table.starting -= 1;
    let (spawned, leader) = spawned?;
    table.leaders.insert(leader, run_id);
    table.runs.insert(run_id);
    Ok((spawned, Place { run_id, leader, is_over: false }))
}

/// From now on nothing is started. Says whether nothing is just being started either.
pub(crate) fn close() -> bool {
    let mut table = table();
    table.is_closed = true;
    table.starting == 0
}

impl Place {
    /// The leader has been reaped; its number may be given to another process from now on.
    pub(crate) fn leader_has_ended(&self) {
        table().leaders.remove(&self.leader);
    }

    /// What is left of this run. In passing, strays that have ended are reaped and those of runs that are over are killed.
    ///
    /// This follows every run, so the usual case is cheap: the group is gone, and nothing came to us.
    pub(crate) fn look(&self) -> Left {
        let table = table();
        // In this order: what a member of the group starts while we look is either still seen with it or has come to us.
        let has_group =
            Pid::from_raw(self.leader).is_some_and(|group| test_kill_process_group(group) != Err(Errno::SRCH));
        let strays: Vec<i32> = proc::adopted().into_iter().filter(|pid| !table.leaders.contains_key(pid)).collect();
        let runs: Vec<Option<RunId>> = strays.iter().map(|pid| started_for(*pid)).collect();
        let is_gone = !has_group && !runs.contains(&Some(self.run_id));
        let members = if is_gone { Vec::new() } else { self.members(&table) };
        // One of them may be a child that is just being started.
        if table.starting > 0 {
            return Left { is_gone, members, has_strays: false };
        }
        for (pid, run_id) in strays.iter().zip(&runs) {
            if run_id.as_ref().is_some_and(|run_id| !table.runs.contains(run_id)) {
                proc::signal(*pid, Signal::KILL);
            }
            reap(*pid);
        }
        Left { is_gone, members, has_strays: !strays.is_empty() }
    }

    /// The expensive look at every process of the machine, for what is alive of this run. What has ended in its group and is
    /// left to us is reaped: no child that is just being started is in the group of another.
    fn members(&self, table: &Table) -> Vec<Entry> {
        let belongs = |entry: &Entry, top: i32| match table.leaders.get(&top) {
            _ if entry.group == self.leader => true,
            Some(run_id) => *run_id == self.run_id,
            None => started_for(top).or_else(|| started_for(entry.pid)) == Some(self.run_id),
        };
        let mut members = proc::descendants(&proc::all());
        members.retain(|(entry, top)| belongs(entry, *top));
        for (entry, top) in &members {
            if !entry.is_alive && entry.pid == *top && entry.group == self.leader && entry.pid != self.leader {
                reap(entry.pid);
            }
        }
        members.into_iter().map(|(entry, _)| entry).filter(|entry| entry.is_alive).collect()
    }

    /// Sends a signal to the group and to those that have left it.
    pub(crate) fn signal(&self, signal: Signal) {
        let outside = || self.look().members.into_iter().filter(|entry| entry.group != self.leader);
        // Before, for when the leader is killed it can no longer be seen that others descend from it. Again after, for one of
        // the group may have left it just before the signal.
        let mut pids: Vec<i32> = outside().map(|entry| entry.pid).collect();
        let _ = Pid::from_raw(self.leader).map(|group| kill_process_group(group, signal));
        pids.extend(outside().map(|entry| entry.pid));
        pids.sort_unstable();
        pids.dedup();
        for pid in pids {
            proc::signal(pid, signal);
        }
    }

    /// Nothing is left of the run, or nothing that could be killed.
    pub(crate) fn leave(mut self) {
        self.is_over = true;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_over {
            self.signal(Signal::KILL);
        }
        let mut table = table();
        table.leaders.remove(&self.leader);
        table.runs.remove(&self.run_id);
    }
}

/// The run that a process was started for.
fn started_for(pid: i32) -> Option<RunId> {
    RunId::parse(std::str::from_utf8(&proc::started_with(pid, RUN_ID_VARIABLE)?).ok()?)
}

/// Reaps a stray if it has ended. Never a leader, which the runtime waits for, and so never while one is being started: it
/// cannot be told from a stray then.
fn reap(stray: i32) {
    let _ = Pid::from_raw(stray).map(|stray| waitpid(Some(stray), WaitOptions::NOHANG));
}

/// Kills the strays that belong to nobody in particular, if no run is left that they could belong to. Says whether there is
/// nothing more to do.
pub(crate) fn sweep() -> bool {
    let table = table();
    if !table.runs.is_empty() || table.starting > 0 {
        return true;
    }
    let strays = proc::descendants(&proc::all());
    for (entry, top) in &strays {
        proc::signal(entry.pid, Signal::KILL);
        if entry.pid == *top {
            reap(entry.pid);
        }
    }
    strays.is_empty()
}
