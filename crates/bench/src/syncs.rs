//! Counts how often a process syncs a file, with `perf`, where that is installed and allowed; elsewhere nobody counts.
//! Counting slows every system call a little, so it is done in a turn of its own that is not timed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const EVENTS: &str = "syscalls:sys_enter_fdatasync,syscalls:sys_enter_fsync";
/// How long perf may take to attach itself. It does not say when it has.
const ATTACHING: Duration = Duration::from_millis(600);

/// A count that is under way.
#[derive(Debug)]
pub(crate) struct SyncCount {
    perf: Child,
    report: PathBuf,
}

impl SyncCount {
    /// Begins to count the syncs of a process; none where that is not possible.
    pub(crate) fn start(pid: u32, folder: &Path) -> Option<Self> {
        let report = folder.join("syncs.csv");
        let mut command = Command::new("perf");
        command.args(["stat", "-x,", "-e", EVENTS, "-p", &pid.to_string(), "-o"]).arg(&report);
        let perf = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        thread::sleep(ATTACHING);
        Some(Self { perf, report })
    }

    /// Ends the count and reads it.
    pub(crate) fn finish(mut self) -> Option<u64> {
        // On an interrupt perf writes its report and ends.
        Command::new("kill").args(["-INT", &self.perf.id().to_string()]).stderr(Stdio::null()).status().ok()?;
        self.perf.wait().ok()?;
        total(&fs::read_to_string(&self.report).ok()?)
    }
}

/// The sum of all events; none when one of them could not be counted.
fn total(report: &str) -> Option<u64> {
    let lines: Vec<&str> = report.lines().filter(|line| line.contains("sys_enter_")).collect();
    let count = |line: &&str| line.split(',').next()?.parse::<u64>().ok();
    if lines.is_empty() { None } else { lines.iter().map(count).sum() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_events_are_added() {
        let report =
            "# started\n\n40,,syscalls:sys_enter_fdatasync,1,100.00,,\n2,,syscalls:sys_enter_fsync,1,100.00,,\n";
        assert_eq!(total(report), Some(42));
        assert_eq!(total("<not supported>,,syscalls:sys_enter_fsync,0,0.00,,\n"), None);
        assert_eq!(total(""), None);
    }
}
