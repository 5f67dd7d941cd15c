//! CPU time of a process by the names of its threads, read from /proc; and, where `perf` is installed, how the time of
//! some of them divides into our code, SQLite and the kernel.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Ticks per second in /proc/PID/stat (USER_HZ, 100 on every Linux that we run on).
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU seconds by the name of the thread. Threads of the same name are added.
pub(crate) fn cpu_seconds(pid: u32) -> io::Result<BTreeMap<String, f64>> {
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let folder = entry?.path();
        // A thread may end while it is looked at; it used next to nothing then.
        let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
        let Some(name) = read("comm") else { continue };
        let exact = read("schedstat").and_then(|text| exact_seconds(&text));
        let seconds = exact.or_else(|| read("stat").and_then(|text| ticked_seconds(&text)));
        *threads.entry(name.trim().to_owned()).or_default() += seconds.unwrap_or(0.0);
    }
    Ok(threads)
}

/// The scheduler's own account in nanoseconds, where the kernel keeps one: a server that answers a thousand polls in a
/// second has used a few ticks.
fn exact_seconds(schedstat: &str) -> Option<f64> {
    let nanoseconds: f64 = schedstat.split_whitespace().next()?.parse().ok()?;
    // A kernel that keeps no account says 0.
    (nanoseconds > 0.0).then_some(nanoseconds / 1e9)
}

/// Fields 14 and 15. The second field is a name in parentheses that may contain anything, so counting begins behind it.
pub(crate) fn ticked_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

/// Samples of a process that are being taken.
pub(crate) struct Samples {
    perf: Child,
    file: PathBuf,
}

impl Samples {
    /// Begins to sample; none where that is not possible.
    pub(crate) fn start(pid: u32, folder: &Path) -> Option<Self> {
        let file = folder.join("samples");
        let mut command = Command::new("perf");
        command.args(["record", "-F", "1999", "-p", &pid.to_string(), "-o"]).arg(&file);
        let perf = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        Some(Self { perf, file })
    }

    /// The share of our own code in what these threads did, by their names; none when nothing was sampled.
    pub(crate) fn share_of_ours(mut self, threads: &[&str]) -> Option<f64> {
        Command::new("kill").args(["-INT", &self.perf.id().to_string()]).stderr(Stdio::null()).status().ok()?;
        self.perf.wait().ok()?;
        let mut command = Command::new("perf");
        command.args(["report", "--stdio", "--no-children", "--sort", "comm,sym", "-i"]).arg(&self.file);
        let report = command.stderr(Stdio::null()).output().ok()?;
        share_of_ours(&String::from_utf8_lossy(&report.stdout), threads)
    }
}

/// Lines look like `15.86%  reader  [.] sqlite3VdbeExec`, with `[k]` for the kernel.
fn share_of_ours(report: &str, threads: &[&str]) -> Option<f64> {
    let (mut ours, mut others) = (0.0, 0.0);
    for line in report.lines() {
        let Some((percent, rest)) = line.trim_start().split_once('%') else { continue };
        let (Ok(percent), rest) = (percent.parse::<f64>(), rest.trim_start()) else { continue };
        let Some((thread, symbol)) = rest.split_once("  ") else { continue };
        if !threads.contains(&thread) {
            continue;
        }
        match kind(symbol.trim_start()) {
            Some(Kind::Ours) => ours += percent,
            Some(Kind::Others) => others += percent,
            None => {}
        }
    }
    (ours + others > 0.0).then(|| ours / (ours + others))
}

enum Kind {
    /// Rust, and the allocator that only Rust uses.
    Ours,
    /// SQLite and the kernel.
    Others,
}

/// None for the C library's copying and comparing, which everybody uses.
fn kind(symbol: &str) -> Option<Kind> {
    let Some(name) = symbol.strip_prefix("[.] ") else { return Some(Kind::Others) };
    let copies = ["memmove", "memcpy", "memset", "memcmp"].iter().any(|copy| name.contains(copy));
    let ours = name.contains("::") || name.starts_with('<') || name.trim_start_matches('_').starts_with("mi_");
    match (copies, ours) {
        (true, _) => None,
        (false, true) => Some(Kind::Ours),
        (false, false) => Some(Kind::Others),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "1 (a ) b) S 1 1 1 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 1 0";
        assert_eq!(ticked_seconds(stat), Some(3.0));
        assert_eq!(exact_seconds("2500000000 17 9\n"), Some(2.5));
        assert_eq!((exact_seconds(""), exact_seconds("0 0 0"), ticked_seconds("")), (None, None, None));
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

    #[test]
    fn our_own_threads_are_found() {
        assert!(!cpu_seconds(std::process::id()).unwrap().is_empty());
    }
}
