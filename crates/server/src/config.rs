//! What a server can be told: its token, how many connections it holds, how long it waits for what.
//! Reading flags, files and the environment is the command line's business.

use std::time::Duration;

use crate::auth::Token;
use crate::browser_check::HostName;
use crate::memory_plan::MemoryPlan;

/// Connections held at once unless the machine allows fewer: room for 10,000 workers and their clients.
const CONNECTION_CAP: usize = 16_384;

/// Claims that wait at once, unless there are few connections: every worker of the largest installation we think of.
pub(crate) const WAITING_CAP: usize = 10_000;

/// File descriptors kept back from connections: the database files, the listener, logs and the runtime.
const RESERVED_DESCRIPTORS: usize = 128;

/// How a server behaves.
#[derive(Clone)]
pub struct Config {
    /// The token that callers must show; without one everybody may call.
    pub token: Option<Token>,
    /// The hosts that clients may name besides this machine, when there is no token.
    pub allowed_hosts: Vec<HostName>,
    /// Connections held at once; idle ones are closed for newcomers, and who finds none idle waits.
    pub connection_cap: usize,
    /// Claims that wait at once; the ones above are answered at once.
    pub waiting_cap: usize,
    /// What requests and answers may take of the memory.
    pub memory: MemoryPlan,
    /// How long it waits for what.
    pub timeouts: Timeouts,
}

impl Config {
    /// The usual behaviour, with as many connections as the process may open and as there is memory for.
    pub fn new(token: Option<Token>) -> Self {
        let memory = MemoryPlan::of_this_process();
        let connection_cap = connection_cap(open_file_limit()).min(memory.connections);
        Self {
            token,
            allowed_hosts: Vec::new(),
            connection_cap,
            waiting_cap: waiting_cap(connection_cap),
            memory,
            timeouts: Timeouts::default(),
        }
    }
}

/// How long a server waits for what. The body of a request has its own timeout where it is read.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For the rest of a request head once its first byte is there.
    pub head: Duration,
    /// For the next request on a connection.
    pub idle: Duration,
    /// For a client to take some more of its answer.
    pub write: Duration,
    /// For a client to take 64 KiB of an answer that waits for it, on average.
    pub read_pace: Duration,
    /// How long an idle connection keeps its buffers, in the hope of another request.
    pub park: Duration,
    /// For more bytes of a client whose last answer is out, before the connection is closed under it.
    pub linger: Duration,
    /// For requests under way when the server stops. Less than the 10 s within which it must be gone, by what the
    /// store needs to close and the log to be written.
    pub stop: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            write: Duration::from_secs(30),
            read_pace: Duration::from_secs(5),
            park: Duration::from_millis(100),
            linger: Duration::from_secs(2),
            stop: Duration::from_secs(7),
        }
    }
}

/// The cap under a limit of open files: what is left after the reserve, but at least one.
fn connection_cap(open_files: Option<usize>) -> usize {
    let room = open_files.map(|limit| limit.saturating_sub(RESERVED_DESCRIPTORS).max(1));
    room.map_or(CONNECTION_CAP, |room| room.min(CONNECTION_CAP))
}

/// Those who wait leave a quarter of the connections to those who do not.
fn waiting_cap(connection_cap: usize) -> usize {
    WAITING_CAP.min(connection_cap - connection_cap / 4)
}

/// How many files this process may open, where the system tells it as a file (Linux).
fn open_file_limit() -> Option<usize> {
    soft_limit(&std::fs::read_to_string("/proc/self/limits").ok()?)
}

/// The soft limit in `Max open files   <soft>   <hard>   files`; none when it says `unlimited`.
fn soft_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_cap_leaves_descriptors_for_everything_else() {
        let cases = [
            (None, 16_384),
            (Some(1_048_576), 16_384),
            (Some(20_000), 16_384),
            (Some(10_500), 10_372),
            (Some(1024), 896),
            (Some(64), 1),
        ];
        for (limit, cap) in cases {
            assert_eq!(connection_cap(limit), cap, "{limit:?}");
        }
    }

    #[test]
    fn those_who_wait_leave_connections_to_the_others() {
        for (connections, waiting) in [(16_384, 10_000), (10_372, 7_779), (896, 672), (1, 1)] {
            assert_eq!(waiting_cap(connections), waiting);
        }
    }

    #[test]
    fn the_soft_limit_is_read_from_the_table_of_limits() {
        let table = "Limit                     Soft Limit           Hard Limit           Units     \n\
                     Max processes             63712                63712                processes \n\
                     Max open files            1024                 524288               files     \n";
        assert_eq!(soft_limit(table), Some(1024));
        assert_eq!(soft_limit("Max open files            unlimited            unlimited            files"), None);
        assert_eq!(soft_limit(""), None);
    }
}
