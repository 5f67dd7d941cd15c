//! What Linux says about this process: memory, time, descriptors. Elsewhere these figures are missing.

use std::fs;

/// In which `/proc` counts time: 100 a second, on every architecture that this program is built for.
const TICKS_PER_SECOND: f64 = 100.0;

/// The figures of a process, as far as the system shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Process {
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) virtual_bytes: Option<u64>,
    pub(crate) open_fds: Option<u64>,
    pub(crate) max_fds: Option<u64>,
    pub(crate) start_time_seconds: Option<f64>,
}

impl Process {
    /// Of this process, now.
    pub(crate) fn read() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let (status, stat) = (read("/proc/self/status"), read("/proc/self/stat"));
        Self {
            cpu_seconds: cpu_seconds(&stat),
            resident_bytes: kib_field(&status, "VmRSS:"),
            virtual_bytes: kib_field(&status, "VmSize:"),
            // One is the descriptor of the listing itself.
            open_fds: fs::read_dir("/proc/self/fd").ok().map(|entries| (entries.count() as u64).saturating_sub(1)),
            max_fds: max_fds(&read("/proc/self/limits")),
            start_time_seconds: start_time_seconds(&stat, &read("/proc/stat")),
        }
    }
}

/// The memory of this process now.
pub(crate) fn resident_bytes() -> Option<u64> {
    kib_field(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// `VmRSS:     1234 kB`
fn kib_field(status: &str, name: &str) -> Option<u64> {
    let kib: u64 = status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// A field of `/proc/self/stat` by its number in proc(5). The second one is a name in brackets, which may hold anything.
fn stat_field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((stat_field(stat, 14)? + stat_field(stat, 15)?) / TICKS_PER_SECOND)
}

/// The start is told since the boot, and `btime` of `/proc/stat` is the time of the boot.
fn start_time_seconds(stat: &str, system: &str) -> Option<f64> {
    let boot: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + stat_field(stat, 22)? / TICKS_PER_SECOND)
}

fn max_fds(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "42 (a) b (c) S 1 42 42 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 9 0 250 1000 7 18446744073709551615";

    #[test]
    fn times_are_read_behind_a_name_with_brackets() {
        assert_eq!(cpu_seconds(STAT), Some(2.0));
        assert_eq!(start_time_seconds(STAT, "cpu 1 2\nbtime 1000\nctxt 5\n"), Some(1_002.5));
        assert_eq!((cpu_seconds(""), start_time_seconds(STAT, "")), (None, None));
    }

    #[test]
    fn memory_and_descriptors_are_read() {
        let status = "Name:\tx\nVmSize:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(kib_field(status, "VmRSS:"), Some(1 << 20));
        assert_eq!(kib_field(status, "VmSwap:"), None);
        assert_eq!(max_fds("Max open files            1024                 524288               files"), Some(1_024));
        assert_eq!(max_fds("Max open files            unlimited            unlimited            files"), None);
    }

    #[test]
    fn this_process_has_all_figures() {
        let process = Process::read();
        assert!(process.resident_bytes.unwrap() > 100_000 && process.virtual_bytes > process.resident_bytes);
        assert!(process.open_fds.unwrap() >= 3 && process.cpu_seconds.unwrap() >= 0.0);
        assert!(process.start_time_seconds.unwrap() > 1.6e9);
    }
}
