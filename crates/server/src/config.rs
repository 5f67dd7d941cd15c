//! The settings of a server: its token, the number of connections, its timeouts. Flags, files and the environment are read
//! by the command line.

use std::time::Duration;

use taskqueue_core::Retention;
use taskqueue_core::limits::TASK_OUTPUT_BYTES;
use taskqueue_dashboard::Mode;

use crate::auth::{SharedTokens, Token};
use crate::browser_check::HostName;
use crate::memory_plan::{MemoryPlan, soft_limit};

/// Open connections, unless the machine allows fewer: enough for 10,000 workers and their clients.
const CONNECTION_CAP: usize = 16_384;

/// Requests that wait at once, unless there are few connections: one for each of 10,000 workers.
const WAITING_CAP: usize = 10_000;

/// File descriptors that connections do not use: the database files, the listener, logs and the runtime.
const RESERVED_DESCRIPTORS: usize = 128;

#[derive(Clone)]
pub struct Config {
    /// The token that opens everything. Without it and without `tokens` every caller is accepted.
    pub token: Option<Token>,
    /// Tokens that open some of it.
    pub tokens: Option<SharedTokens>,
    /// The hosts for which requests are accepted besides this machine, when there is no token.
    pub allowed_hosts: Vec<HostName>,
    /// Open connections. At the cap an idle one is closed for a new one; while none is idle, the new one waits.
    pub connection_cap: usize,
    pub limits: Limits,
    /// How much of the dashboard there is.
    pub dashboard: Mode,
    /// How much memory requests and answers may take.
    pub memory: MemoryPlan,
    pub timeouts: Timeouts,
    /// For how long a server that is told to stop goes on as before, except that it says that it is not ready.
    pub stop_delay: Duration,
    /// True if every request is logged, not only slow ones and failures of the server.
    pub log_requests: bool,
    /// Tells how many log lines could not be written, for metrics.
    pub log_lines_lost: Option<fn() -> u64>,
}

impl Config {
    /// Returns the default settings, with as many connections as the limits of open files and memory allow.
    pub fn new(token: Option<Token>) -> Self {
        let memory = MemoryPlan::of_this_process();
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let open_files = soft_limit(&limits, "Max open files").and_then(|limit| usize::try_from(limit).ok());
        let connection_cap = connection_cap(open_files).min(memory.connections);
        Self {
            token,
            tokens: None,
            allowed_hosts: Vec::new(),
            connection_cap,
            limits: Limits { waiting_cap: waiting_cap(connection_cap), ..Limits::default() },
            dashboard: Mode::default(),
            memory,
            timeouts: Timeouts::default(),
            stop_delay: Duration::ZERO,
            log_requests: false,
            log_lines_lost: None,
        }
    }

    /// Returns these settings for a listener with TLS, whose connections take more memory.
    #[must_use]
    pub fn with_tls(mut self) -> Self {
        self.connection_cap = self.connection_cap.min(self.memory.connections_with_tls());
        self.limits.waiting_cap = waiting_cap(self.connection_cap);
        self
    }
}

/// How much a server does at once and keeps.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests that wait at once. At the cap a request is answered at once.
    pub waiting_cap: usize,
    /// The bytes of output that are kept of a task; 0 turns output off.
    pub task_output_bytes: usize,
    /// How long ended tasks are kept in new queues.
    pub default_retention: Retention,
}

impl Default for Limits {
    fn default() -> Self {
        let default_retention = Retention::default();
        Self { waiting_cap: WAITING_CAP, task_output_bytes: TASK_OUTPUT_BYTES, default_retention }
    }
}

/// Connections of a listener for nothing but metrics: a few monitoring systems, and somebody who looks.
pub(crate) const METRICS_CONNECTIONS: usize = 16;

/// How long a server waits. The timeout of a request body is in `extract/body.rs`.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For a TLS handshake, from the moment in which the connection was accepted.
    pub handshake: Duration,
    /// For the rest of a request head once its first byte is there.
    pub head: Duration,
    /// For the next request on a connection.
    pub idle: Duration,
    /// For a client to take some more of its answer.
    pub write: Duration,
    /// For a client to take 64 KiB of an answer once the buffer of its socket is full, on average.
    pub read_pace: Duration,
    /// How long an idle connection keeps its buffers for another request.
    pub park: Duration,
    /// For more bytes of a client whose last answer is sent, before the connection is closed.
    pub linger: Duration,
    /// For requests under way when the server stops. A stop may take 10 s, and the store has to close and the log to be
    /// written after this.
    pub stop: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
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

/// Returns the cap under a limit of open files: what is left after the reserve, but at least one.
fn connection_cap(open_files: Option<usize>) -> usize {
    let room = open_files.map(|limit| limit.saturating_sub(RESERVED_DESCRIPTORS).max(1));
    room.map_or(CONNECTION_CAP, |room| room.min(CONNECTION_CAP))
}

/// Waiting claims leave a quarter of the connections to other requests.
fn waiting_cap(connection_cap: usize) -> usize {
    WAITING_CAP.min(connection_cap - connection_cap / 4)
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
}
