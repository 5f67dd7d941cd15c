//! What a process uses: CPU time and memory, by /proc; and, by `perf` where that is installed and allowed, how often it syncs a file, and how
//! the time of its threads divides into our code and the rest. `perf` slows the process a little, so it runs in turns of its own that are
//! not timed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, io, thread};

/// Ticks per second in /proc/PID/stat (USER_HZ, 100 on every Linux that we run on).
const TICKS_PER_SECOND: f64 = 100.0;

/// The threads of the SQLite store (`crates/store-sqlite`); all others belong to the HTTP server.
const STORAGE: [&str; 6] = ["writer", "reader", "short-reader", "long-reader", "checkpointer", "run-filters"];

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// User and system time of all its threads.
    pub(crate) cpu_seconds: f64,
    /// Of this, that of the threads of the storage.
    pub(crate) storage_seconds: f64,
    pub(crate) rss_bytes: u64,
}

impl Usage {
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // In ticks, which are rounded down, but with what threads used that have ended.
        let of_all = ticked_seconds(&stat).unwrap_or(0.0);
        let (mut of_the_living, mut storage_seconds) = (0.0, 0.0);
        for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
            let folder = entry?.path();
            // A thread may end meanwhile; it used next to nothing then.
            let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
            let seconds = exact_seconds(&read("schedstat")).or_else(|| ticked_seconds(&read("stat"))).unwrap_or(0.0);
            of_the_living += seconds;
            storage_seconds += if STORAGE.contains(&read("comm").trim()) { seconds } else { 0.0 };
        }
        let cpu_seconds = f64::max(of_the_living, of_all);
        Ok(Self { cpu_seconds, storage_seconds, rss_bytes: status_bytes(pid, "VmRSS:")? })
    }

    /// What it used since then, and its memory now.
    pub(crate) fn since(self, before: Self) -> Self {
        let cpu_seconds = self.cpu_seconds - before.cpu_seconds;
        Self { cpu_seconds, storage_seconds: self.storage_seconds - before.storage_seconds, ..self }
    }

    pub(crate) fn rss_mebibytes(self) -> f64 {
        self.rss_bytes as f64 / f64::from(1 << 20)
    }
}

/// A figure of the memory of a process, by its name in /proc/PID/status.
pub(crate) fn status_bytes(pid: u32, name: &str) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    named_bytes(&status, name).ok_or_else(|| io::Error::other("/proc has an unknown form"))
}

fn named_bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The scheduler's own account in nanoseconds, where the kernel keeps one: a server that answers a thousand polls in a
/// second has used a few ticks.
fn exact_seconds(schedstat: &str) -> Option<f64> {
    let nanoseconds: f64 = schedstat.split_whitespace().next()?.parse().ok()?;
    // A kernel that keeps no account says 0.
    (nanoseconds > 0.0).then_some(nanoseconds / 1e9)
}

/// Fields 14 and 15. The second field is a name in parentheses that may contain anything, so counting begins behind it.
fn ticked_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

const SYNCS: &str = "syscalls:sys_enter_fdatasync,syscalls:sys_enter_fsync";
/// How long perf may take to attach itself. It does not say when it has.
const ATTACHING: Duration = Duration::from_millis(600);

/// Lets a command neither read nor say anything.
pub(crate) fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

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
        Some(Self { child: quiet(&mut command).spawn().ok()?, file })
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
    fn resident_memory_is_told_in_kibibytes() {
        assert_eq!(named_bytes("VmHWM:\t 9 kB\nVmRSS:\t    2048 kB\n", "VmRSS:"), Some(2 << 20));
    }

    #[test]
    fn our_own_process_uses_memory() {
        assert!(Usage::of(std::process::id()).unwrap().rss_bytes > 100_000);
    }

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "1 (a ) b) S 1 1 1 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 1 0";
        assert_eq!(ticked_seconds(stat), Some(3.0));
        assert_eq!(exact_seconds("2500000000 17 9\n"), Some(2.5));
        assert_eq!((exact_seconds(""), exact_seconds("0 0 0"), ticked_seconds("")), (None, None, None));
    }

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
