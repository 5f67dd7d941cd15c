//! How much memory this process may use, and how it is divided among the things that clients make the server hold. The
//! whole account, with what the store needs, is docs/memory.md.

use std::path::Path;
use std::sync::LazyLock;
use std::{fs, iter};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// The most memory of a connection with a request under way without any reservation: 16 KiB of hyper's buffers, 4 KiB of
/// its state, and a small body or a small answer (`memory_budget.rs`).
pub(crate) const CONNECTION_BYTES: u64 = 28 * KIB;

/// The most memory that TLS adds to that: a record that has not arrived completely (18 KiB), one that is decrypted and not read yet
/// (16 KiB), one that is encrypted and not sent yet (17 KiB), and the keys and the state of the session.
const TLS_BYTES: u64 = 56 * KIB;

/// Room for 250 requests at once that may each turn out to be about the largest task: as many as the writer takes in a
/// batch. More is never used.
const ANSWERS_MAX_BYTES: u64 = 512 * MIB;
/// Room for 112 of the largest ordinary bodies or 7 of the largest batches, each as it was sent and as it was understood.
const REQUESTS_MAX_BYTES: u64 = 256 * MIB;
/// Room for 10 of the largest bodies while they are parsed.
const PARSING_MAX_BYTES: u64 = 512 * MIB;

/// The memory that a long read costs an embedded store: a connection with its page cache, a thread, and one large task at a time.
const LONG_READ_BYTES: u64 = 3 * MIB;
/// More such reads at a time would only wait for each other.
const LONG_READS_MAX: u64 = 64;

/// With less than this, a store behind a network does fewer things at a time: each of its connections holds what it receives and
/// sends beside what becomes of it.
const SMALL_BYTES: u64 = 512 * MIB;

/// With this much memory all other parts have their maximum, and half of the rest may be pending tasks.
const SATURATED_BYTES: u64 = 3 * 1024 * MIB;

/// How many bytes each part may take, and how many connections and long reads there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Answers, from before they are made until they are sent.
    pub answers_bytes: usize,
    /// Requests, from when they prove to be large until they are answered.
    pub requests_bytes: usize,
    /// Bodies while they are parsed, which takes many times their size.
    pub parsing_bytes: usize,
    pub connections: usize,
    /// The pending order of a store that keeps it in memory.
    pub pending_bytes: usize,
    /// Reads at a time that visit many tasks.
    pub long_reads: usize,
    /// True if there is little of it.
    pub is_small: bool,
}

impl MemoryPlan {
    /// Returns the plan for the memory that this process may use.
    pub fn of_this_process() -> Self {
        Self::within(*LIMIT_BYTES)
    }

    /// Divides a limit: a sixth for answers, a seventh for requests, three sixteenths for parsing, a fifth for connections, a
    /// twentieth each for the pending order and for long reads. The rest is for the program and the caches of the store. Less
    /// than 256 MiB is divided as if it were 256 MiB: then the largest batch just fits, and the largest item while it is
    /// parsed.
    pub fn within(limit_bytes: u64) -> Self {
        let limit_bytes = limit_bytes.max(256 * MIB);
        let fifth = limit_bytes / 5;
        let bytes = |part: u64, most: u64| usize::try_from(part.min(most)).unwrap_or(usize::MAX);
        Self {
            answers_bytes: bytes(limit_bytes / 6, ANSWERS_MAX_BYTES),
            requests_bytes: bytes(limit_bytes / 7, REQUESTS_MAX_BYTES),
            parsing_bytes: bytes(limit_bytes / 16 * 3, PARSING_MAX_BYTES),
            connections: bytes(fifth / CONNECTION_BYTES, u64::MAX),
            pending_bytes: bytes((fifth / 4).max(limit_bytes.saturating_sub(SATURATED_BYTES) / 2), u64::MAX),
            long_reads: bytes(fifth / 4 / LONG_READ_BYTES, LONG_READS_MAX),
            is_small: limit_bytes < SMALL_BYTES,
        }
    }

    /// Returns how many connections with TLS fit into the part of the connections.
    pub(crate) fn connections_with_tls(&self) -> usize {
        let part = self.connections as u64 * CONNECTION_BYTES;
        usize::try_from(part / (CONNECTION_BYTES + TLS_BYTES)).unwrap_or(usize::MAX)
    }
}

/// Returns the memory that this process may use, if the system says so.
pub(crate) fn limit_of_this_process() -> Option<u64> {
    Some(*LIMIT_BYTES).filter(|limit| *limit < u64::MAX)
}

/// As it was when it was first asked for, so that all parts are of the same whole.
static LIMIT_BYTES: LazyLock<u64> = LazyLock::new(limit_bytes);

/// Returns the smallest of all limits that the system shows: of the process, of its control groups, of the machine.
fn limit_bytes() -> u64 {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let own = limits_of_process(&read("/proc/self/limits"), &read("/proc/self/status"));
    let groups = limit_files(&read("/proc/self/cgroup")).into_iter();
    let groups = groups.filter_map(|path| limit_of_group(&fs::read_to_string(Path::new(&path)).ok()?));
    let machine = memory_of_machine(&read("/proc/meminfo"));
    own.into_iter().chain(groups).chain(machine).min().unwrap_or(u64::MAX)
}

/// Returns the soft limits in lines such as `Max data size   <soft>   <hard>   bytes`, without what is used up by what is mapped and not
/// in memory: two of them count addresses, and the stacks of threads are mostly that.
fn limits_of_process(limits: &str, status: &str) -> Vec<u64> {
    let used = |name| kib_line(status, name).unwrap_or(0);
    let left = |(name, mapped, resident)| {
        Some(u64::saturating_sub(soft_limit(limits, name)?, used(mapped).saturating_sub(used(resident))))
    };
    let of_addresses = [("Max data size", "VmData:", "RssAnon:"), ("Max address space", "VmSize:", "VmRSS:")];
    of_addresses.into_iter().filter_map(left).chain(soft_limit(limits, "Max resident set")).collect()
}

/// Returns the files with the limits of the control groups in `/proc/self/cgroup`, and of those above them. In a container
/// the path may be one of the host, which is not there; the group of the container itself is the root then.
fn limit_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let own = Some(path.trim_end_matches('/'));
        let paths = iter::successors(own, |path| path.rsplit_once('/').map(|(above, _)| above));
        files.extend(paths.map(|path| format!("{root}{path}/{file}")));
    }
    files
}

/// Returns a number of bytes; `None` for `max`.
fn limit_of_group(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn memory_of_machine(meminfo: &str) -> Option<u64> {
    kib_line(meminfo, "MemTotal:")
}

/// Returns the bytes of a line such as `MemTotal:       24607940 kB`.
pub(crate) fn kib_line(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * KIB)
}

/// Returns the soft limit in a line such as `Max open files   <soft>   <hard>   files`; `None` when it says `unlimited`.
pub(crate) fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    limits.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_fit_into_the_limit_with_room_for_the_program_and_the_storage() {
        // The smallest machine that is promised to work, and what the program and the caches of SQLite take there.
        let (limit, base) = (256 * MIB, 50 * MIB);
        let plan = MemoryPlan::within(limit);
        let connections = plan.connections as u64 * CONNECTION_BYTES;
        let bytes = plan.answers_bytes + plan.requests_bytes + plan.parsing_bytes + plan.pending_bytes;
        let sum = bytes as u64 + connections + plan.long_reads as u64 * LONG_READ_BYTES;
        assert!(base + sum <= limit, "{plan:?}");
        assert!(plan.connections > 1_500 && plan.long_reads == 4, "{plan:?}");
        assert_eq!(MemoryPlan::within(64 * MIB), plan);
    }

    #[test]
    fn more_memory_is_used_up_to_a_limit() {
        let plan = |limit| MemoryPlan::within(limit);
        assert_eq!(plan(1024 * MIB).answers_bytes as u64, 1024 * MIB / 6);
        assert_eq!(plan(u64::MAX).answers_bytes as u64, ANSWERS_MAX_BYTES);
        assert_eq!(plan(u64::MAX).requests_bytes as u64, REQUESTS_MAX_BYTES);
        assert_eq!(plan(u64::MAX).parsing_bytes as u64, PARSING_MAX_BYTES);
        assert_eq!([1, 4, 64].map(|gib| plan(gib * 1024 * MIB).long_reads), [17, 64, 64]);
        assert_eq!([256, 511, 512, 4096].map(|mib| plan(mib * MIB).is_small), [true, true, false, false]);
    }

    #[test]
    fn connections_with_tls_are_fewer_because_each_takes_more() {
        let counts = |limit| (MemoryPlan::within(limit).connections, MemoryPlan::within(limit).connections_with_tls());
        assert_eq!(counts(256 * MIB), (1872, 624));
        assert_eq!(counts(8 * 1024 * MIB).1, 19_972);
    }

    #[test]
    fn limits_are_read_where_linux_tells_them() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max data size             268435456            unlimited            bytes     \n\
                      Max resident set          unlimited            unlimited            bytes     \n\
                      Max address space         536870912            unlimited            bytes     \n";
        assert_eq!(limits_of_process(limits, ""), [268_435_456, 536_870_912]);
        assert_eq!(limits_of_process("", ""), [0_u64; 0]);
        // Addresses that are mapped and not in memory cannot be used any more.
        let status = "VmSize:\t  300000 kB\nVmRSS:\t   40000 kB\nRssAnon:\t   20000 kB\nVmData:\t   30240 kB\n";
        assert_eq!(limits_of_process(limits, status), [257_949_696, 270_630_912]);
        assert_eq!(limits_of_process("Max address space 1000 1000 bytes\n", status), [0]);
        assert_eq!(limits_of_process("Max resident set 1000 1000 bytes\n", status), [1000]);

        let version_2 = ["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"];
        assert_eq!(limit_files("0::/a/b\n"), version_2);
        assert_eq!(limit_files("0::/\n"), ["/sys/fs/cgroup/memory.max"]);
        let version_1 =
            ["/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
        assert_eq!(limit_files("5:devices:/y\n4:cpu,memory:/x\n"), version_1);
        assert_eq!(limit_files("nonsense\n"), [""; 0]);

        assert_eq!(limit_of_group("268435456\n"), Some(268_435_456));
        assert_eq!(limit_of_group("max\n"), None);
        assert_eq!(memory_of_machine("MemTotal:       1024 kB\nMemFree: 1 kB\n"), Some(MIB));
        assert_eq!(memory_of_machine(""), None);
    }

    #[test]
    fn a_soft_limit_is_read_from_the_table_of_limits() {
        let table = "Limit                     Soft Limit           Hard Limit           Units     \n\
                     Max processes             63712                63712                processes \n\
                     Max open files            1024                 524288               files     \n\
                     Max data size             unlimited            unlimited            bytes     \n";
        let limits = ["Max open files", "Max data size", "Max nothing"].map(|name| soft_limit(table, name));
        assert_eq!(limits, [Some(1024), None, None]);
    }
}
