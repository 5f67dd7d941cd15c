//! The processors and the memory that the processes of a run use, from /proc.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use taskqueue_client::WorkerId;

use crate::identity::SlotIdentity;
use crate::process::proc::{self, ProcessEntry};

/// The processes of the run in a slot: those below its supervisor.
#[derive(Clone, Debug, Default)]
pub struct RunProcesses(Arc<Mutex<SlotRun>>);

#[derive(Clone, Copy, Debug, Default)]
struct SlotRun {
    supervisor: Option<i32>,
    /// The number of runs until now: a supervisor is used again.
    count: u64,
}

/// The number of a run in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunNumber {
    supervisor: i32,
    count: u64,
}

/// The run has ended when this is dropped.
#[derive(Debug)]
pub(crate) struct RunGuard(RunProcesses);

impl RunProcesses {
    pub(crate) fn begin(&self, supervisor: i32) -> RunGuard {
        let mut present = self.0.lock();
        *present = SlotRun { supervisor: Some(supervisor), count: present.count + 1 };
        RunGuard(self.clone())
    }

    pub(super) fn present(&self) -> Option<RunNumber> {
        let SlotRun { supervisor, count } = *self.0.lock();
        supervisor.map(|supervisor| RunNumber { supervisor, count })
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.0.0.lock().supervisor = None;
    }
}

/// All processes of the machine at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    at: Instant,
    used: HashMap<i32, ProcessEntry>,
    children: HashMap<i32, Vec<i32>>,
}

/// The usage of the processes of a run until a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunUsage {
    at: Instant,
    ticks: u64,
    /// The ticks are those of the time before, because there were less.
    has_old_ticks: bool,
    pub(super) memory_bytes: u64,
    pub(super) processes: usize,
}

impl Snapshot {
    /// Blocks: about 10 µs per process of the machine.
    pub(super) fn take() -> Self {
        let at = Instant::now();
        Self::of(at, &proc::all())
    }

    fn of(at: Instant, processes: &[ProcessEntry]) -> Self {
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for process in processes {
            children.entry(process.parent).or_default().push(process.pid);
        }
        Self { at, used: processes.iter().map(|process| (process.pid, *process)).collect(), children }
    }

    /// Returns the usage of the processes below a supervisor; `None` if it cannot be seen.
    pub(super) fn usage(&self, run: RunNumber) -> Option<RunUsage> {
        let supervisor = self.used.get(&run.supervisor)?;
        // What the supervisor has reaped was of this run, or of one before, which does not matter: only differences count.
        let (mut ticks, mut pages, mut processes) = (supervisor.ended_ticks, 0, 0);
        let mut waiting = self.children.get(&run.supervisor).cloned().unwrap_or_default();
        while let Some(pid) = waiting.pop() {
            // With reused pids there could be a cycle.
            if processes > self.used.len() {
                return None;
            }
            if let Some(used) = self.used.get(&pid) {
                ticks += used.ticks + used.ended_ticks;
                pages += used.resident_pages;
                processes += 1;
            }
            waiting.extend(self.children.get(&pid).into_iter().flatten());
        }
        let memory_bytes = pages * rustix::param::page_size() as u64;
        Some(RunUsage { at: self.at, ticks, has_old_ticks: false, memory_bytes, processes })
    }
}

impl RunUsage {
    /// Returns the usage from which the next one is measured. A process that ends while /proc is read is seen neither itself nor in the sum of its parent.
    /// If hours of its time came back the next time, they would count as used meanwhile. Who does not come back was never waited for.
    pub(super) fn as_earlier(self, before: Option<&Self>) -> Self {
        match before {
            Some(before) if self.ticks < before.ticks && !before.has_old_ticks => {
                Self { ticks: before.ticks, has_old_ticks: true, ..self }
            }
            _ => self,
        }
    }

    /// The use of processors since an earlier moment: 100 is one of them.
    pub(super) fn cpu_percent_since(&self, earlier: &Self) -> f64 {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        let ticks = self.ticks.saturating_sub(earlier.ticks) as f64;
        if seconds > 0.0 { ticks / rustix::param::clock_ticks_per_second() as f64 / seconds * 100.0 } else { 0.0 }
    }
}

/// The slots of a worker.
#[derive(Debug, Default)]
pub(crate) struct MeasuredSlots(Mutex<Vec<(WorkerId, RunProcesses)>>);

impl MeasuredSlots {
    pub(crate) fn add(&self, slot: &SlotIdentity) -> RunProcesses {
        let processes = RunProcesses::default();
        let mut slots = self.0.lock();
        slots.push((slot.worker_id, processes.clone()));
        processes
    }

    pub(crate) fn remove(&self, slot: &SlotIdentity) {
        self.0.lock().retain(|(id, _)| *id != slot.worker_id);
    }

    pub(super) fn all(&self) -> Vec<(WorkerId, RunProcesses)> {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn used(parent: i32, ticks: u64, ended_ticks: u64, resident_pages: u64) -> ProcessEntry {
        ProcessEntry { parent, ticks, ended_ticks, resident_pages, ..ProcessEntry::default() }
    }

    fn snapshot(at: Instant, used: &[(i32, ProcessEntry)]) -> Snapshot {
        let processes: Vec<ProcessEntry> = used.iter().map(|(pid, used)| ProcessEntry { pid: *pid, ..*used }).collect();
        Snapshot::of(at, &processes)
    }

    #[test]
    fn the_whole_tree_counts_and_what_ended_meanwhile_too() {
        let run = RunNumber { supervisor: 10, count: 1 };
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let (hz, page) = (rustix::param::clock_ticks_per_second(), rustix::param::page_size() as u64);
        // The supervisor, the command, its child with a grandchild, and somebody else.
        let earlier = snapshot(
            begin,
            &[(10, used(1, 5, 70, 9)), (11, used(10, 0, 0, 100)), (12, used(11, hz, 0, 50)), (99, used(1, 9, 9, 9))],
        );
        // 12 has ended after another half second, and its parent has reaped it; 13 is an orphan that the supervisor has adopted.
        let later = snapshot(
            begin + second,
            &[
                (10, used(1, 6, 70, 9)),
                (11, used(10, 0, hz + hz / 2, 100)),
                (13, used(10, hz, 0, 20)),
                (99, used(1, 99, 9, 9)),
            ],
        );
        let [earlier, later] = [earlier, later].map(|snapshot| snapshot.usage(run).unwrap());
        assert_eq!((earlier.memory_bytes, earlier.processes), (150 * page, 2));
        assert_eq!((later.memory_bytes, later.processes), (120 * page, 2));
        assert!((later.cpu_percent_since(&earlier) - 150.0).abs() < 1e-6, "{}", later.cpu_percent_since(&earlier));
        assert!(snapshot(begin, &[]).usage(run).is_none());
        let cycle = snapshot(begin, &[(10, used(1, 0, 0, 0)), (11, used(10, 0, 0, 0)), (12, used(12, 0, 0, 0))]);
        assert_eq!(cycle.usage(run).unwrap().processes, 1);
    }

    #[test]
    fn a_process_that_was_overlooked_once_is_not_counted_as_used_at_once() {
        let (begin, hz) = (Instant::now(), rustix::param::clock_ticks_per_second());
        let usage = |second, ticks| {
            let at = begin + Duration::from_secs(second);
            RunUsage { at, ticks, has_old_ticks: false, memory_bytes: 0, processes: 1 }
        };
        let before = usage(0, 10_000 * hz);
        let overlooked = usage(15, 0).as_earlier(Some(&before));
        let percent = usage(30, 10_030 * hz).cpu_percent_since(&overlooked);
        assert!((percent - 200.0).abs() < 1e-6, "{percent}");
        let gone = usage(30, 15 * hz).as_earlier(Some(&overlooked));
        let percent = usage(45, 30 * hz).cpu_percent_since(&gone);
        assert!((percent - 100.0).abs() < 1e-6, "{percent}");
    }

    #[test]
    fn each_run_of_a_slot_has_its_own_number() {
        let processes = RunProcesses::default();
        assert_eq!(processes.present(), None);
        let first = processes.begin(10);
        let number = processes.present();
        drop(first);
        assert_eq!(processes.present(), None);
        let _second = processes.begin(10);
        assert_ne!(processes.present(), number);
    }

    #[test]
    fn this_process_uses_memory() {
        let snapshot = Snapshot::take();
        let own = proc::own_pid();
        assert!(snapshot.used[&own].resident_pages > 0);
    }
}
