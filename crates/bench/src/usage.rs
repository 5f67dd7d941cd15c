//! CPU time and memory of a process, read from /proc.

use std::fs;
use std::io;

/// Ticks per second in /proc/PID/stat (USER_HZ, 100 on every Linux that we run on).
const TICKS_PER_SECOND: f64 = 100.0;

/// The threads of the SQLite store (`crates/store-sqlite`); all others belong to the HTTP server.
pub(crate) const STORAGE: [&str; 6] =
    ["writer", "reader", "short-reader", "long-reader", "checkpointer", "run-filters"];

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
}
