//! CPU time and memory of a process, read from /proc.

use std::collections::BTreeMap;
use std::fs;
use std::io;

/// Ticks per second in /proc/PID/stat (USER_HZ, 100 on every Linux that we run on).
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// User and system time of all its threads.
    pub(crate) cpu_seconds: f64,
    pub(crate) rss_bytes: u64,
}

impl Usage {
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let rss_bytes = rss_bytes(&status).ok_or_else(|| io::Error::other("/proc has an unknown form"))?;
        let of_the_living: f64 = thread_cpu_seconds(pid)?.values().sum();
        // In ticks, which are rounded down, but with what threads used that have ended.
        let of_all = ticked_seconds(&stat).unwrap_or(0.0);
        Ok(Self { cpu_seconds: of_the_living.max(of_all), rss_bytes })
    }
}

fn rss_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// CPU seconds by the name of the thread. Threads of the same name are added.
pub(crate) fn thread_cpu_seconds(pid: u32) -> io::Result<BTreeMap<String, f64>> {
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let folder = entry?.path();
        // A thread may end meanwhile; it used next to nothing then.
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
        assert_eq!(rss_bytes("VmHWM:\t 9 kB\nVmRSS:\t    2048 kB\n"), Some(2 << 20));
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
    fn our_own_threads_are_found() {
        assert!(!thread_cpu_seconds(std::process::id()).unwrap().is_empty());
    }
}
