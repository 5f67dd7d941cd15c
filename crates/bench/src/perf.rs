//! `perf`, where it is installed and allowed: how often a process syncs a file, and how the time of its threads divides into
//! our code and the rest. It slows the process a little, so it runs in turns of its own that are not timed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::usage::STORAGE;

const SYNCS: &str = "syscalls:sys_enter_fdatasync,syscalls:sys_enter_fsync";
/// How long perf may take to attach itself. It does not say when it has.
const ATTACHING: Duration = Duration::from_millis(600);

/// A running perf, and the file it writes.
pub(crate) struct Perf {
    child: Child,
    file: PathBuf,
}

impl Perf {
    /// Begins to count the syncs of a process; none where that is not possible.
    pub(crate) fn count_syncs(pid: u32, folder: &Path) -> Option<Self> {
        let perf = Self::start(&["stat", "-x,", "-e", SYNCS], pid, folder.join("syncs.csv"))?;
        thread::sleep(ATTACHING);
        Some(perf)
    }

    /// Begins to sample a process; none where that is not possible.
    pub(crate) fn sample(pid: u32, folder: &Path) -> Option<Self> {
        Self::start(&["record", "-F", "1999"], pid, folder.join("samples"))
    }

    fn start(arguments: &[&str], pid: u32, file: PathBuf) -> Option<Self> {
        let mut command = Command::new("perf");
        command.args(arguments).args(["-p", &pid.to_string(), "-o"]).arg(&file);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        Some(Self { child, file })
    }

    /// On an interrupt perf writes its file and ends.
    fn finish(mut self) -> Option<PathBuf> {
        Command::new("kill").args(["-INT", &self.child.id().to_string()]).stderr(Stdio::null()).status().ok()?;
        self.child.wait().ok()?;
        Some(self.file)
    }

    /// The number of syncs.
    pub(crate) fn syncs(self) -> Option<u64> {
        sum_of_events(&fs::read_to_string(self.finish()?).ok()?)
    }

    /// The share of our own code in what the threads of the storage did; none when nothing was sampled.
    pub(crate) fn share_of_ours(self) -> Option<f64> {
        let mut command = Command::new("perf");
        command.args(["report", "--stdio", "--no-children", "--sort", "comm,sym", "-i"]).arg(self.finish()?);
        let report = command.stderr(Stdio::null()).output().ok()?;
        share_of_ours(&String::from_utf8_lossy(&report.stdout), &STORAGE)
    }
}

/// The sum of all events; none when one of them could not be counted.
fn sum_of_events(report: &str) -> Option<u64> {
    let lines: Vec<&str> = report.lines().filter(|line| line.contains("sys_enter_")).collect();
    let count = |line: &&str| line.split(',').next()?.parse::<u64>().ok();
    if lines.is_empty() { None } else { lines.iter().map(count).sum() }
}

/// Lines look like `15.86%  reader  [.] sqlite3VdbeExec`, with `[k]` for the kernel.
fn share_of_ours(report: &str, threads: &[&str]) -> Option<f64> {
    let (mut ours, mut all) = (0.0, 0.0);
    for line in report.lines() {
        let Some((percent, rest)) = line.trim_start().split_once('%') else { continue };
        let (Ok(percent), rest) = (percent.parse::<f64>(), rest.trim_start()) else { continue };
        let Some((thread, symbol)) = rest.split_once("  ") else { continue };
        if let Some(is_ours) = is_ours(symbol.trim_start()).filter(|_| threads.contains(&thread)) {
            all += percent;
            ours += if is_ours { percent } else { 0.0 };
        }
    }
    (all > 0.0).then(|| ours / all)
}

/// Returns true for a symbol that is Rust, or the allocator that only Rust uses, and not SQLite or the kernel. None for the C library's
/// copying and comparing, which all of them use.
fn is_ours(symbol: &str) -> Option<bool> {
    let Some(name) = symbol.strip_prefix("[.] ") else { return Some(false) };
    let copies = ["memmove", "memcpy", "memset", "memcmp"].iter().any(|copy| name.contains(copy));
    let ours = name.contains("::") || name.starts_with('<') || name.trim_start_matches('_').starts_with("mi_");
    (!copies).then_some(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_events_are_added() {
        let report =
            "# started\n\n40,,syscalls:sys_enter_fdatasync,1,100.00,,\n2,,syscalls:sys_enter_fsync,1,100.00,,\n";
        assert_eq!(sum_of_events(report), Some(42));
        assert_eq!(sum_of_events("<not supported>,,syscalls:sys_enter_fsync,0,0.00,,\n"), None);
        assert_eq!(sum_of_events(""), None);
    }

    #[test]
    fn samples_are_told_apart_by_thread_and_symbol() {
        let report = "# comment\n\n    40.00%  writer    [.] sqlite3VdbeExec\n    10.00%  writer    [k] ext4_sync\n\
                      \u{20}   20.00%  writer    [.] taskqueue_core::lifecycle::decide\n     5.00%  writer    [.] _mi_free\n\
                      \u{20}    9.00%  writer    [.] __memmove_avx\n    16.00%  tq-async  [.] hyper::proto\n";
        let share = share_of_ours(report, &["writer"]).unwrap();
        assert!((share - 25.0 / 75.0).abs() < 1e-9, "{share}");
        assert_eq!(share_of_ours(report, &["reader"]), None);
        assert_eq!(share_of_ours("", &["writer"]), None);
    }
}
