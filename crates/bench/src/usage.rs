//! What a process has used so far, read from /proc by its id.

use std::fs;
use std::io;

use crate::threads;

/// CPU and memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// User and system time of all its threads.
    pub(crate) cpu_seconds: f64,
    /// Resident memory now.
    pub(crate) rss_bytes: u64,
}

impl Usage {
    /// Reads it.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let rss_bytes = rss_bytes(&status).ok_or_else(|| io::Error::other("/proc has an unknown form"))?;
        let of_the_living: f64 = threads::cpu_seconds(pid)?.values().sum();
        // In ticks, which are rounded down, but with what threads used that have ended.
        let of_all = threads::ticked_seconds(&stat).unwrap_or(0.0);
        Ok(Self { cpu_seconds: of_the_living.max(of_all), rss_bytes })
    }
}

fn rss_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
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
}
