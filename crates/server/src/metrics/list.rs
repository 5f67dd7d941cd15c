//! Every metric that `GET /metrics` shows: name, type, labels, meaning. docs/reference/metrics.md says the same, and a test compares
//! both with what a server shows. Where the values come from is in `snapshot.rs`, how they are written in `text.rs`.

use prometheus_client::metrics::MetricType;

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// As it is asked for; of a counter it ends with `_total`.
    pub name: &'static str,
    pub kind: MetricType,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

macro_rules! metrics {
    ($($ident:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(crate) const $ident: Metric =
            Metric { name: $name, kind: MetricType::$kind, labels: &[$($label),*], help: $help };)*
        /// All of them.
        pub const ALL: &[Metric] = &[$($ident),*];
    };
}

metrics! {
    // The server
    BUILD_INFO = Gauge "taskqueue_build_info" ["version"] "Always 1; the label is the version of the server.";
    READY = Gauge "taskqueue_ready" [] "1 if the database works and the server is not stopping, otherwise 0.";
    FIGURES_UP = Gauge "taskqueue_figures_up" []
        "1 if the database gave the figures of its queues in time. Otherwise 0, and tasks, routes, workers and the size of the database are missing.";
    TLS_EXPIRES = Gauge "taskqueue_tls_certificate_expires_seconds" []
        "Seconds until the certificate that is shown to clients expires, below 0 once it has; missing without TLS.";

    // Requests
    HTTP_REQUESTS = Counter "taskqueue_http_requests_total" ["method", "path", "status"]
        "Answered requests, by the template of their path.";
    HTTP_DURATION = Histogram "taskqueue_http_request_duration_seconds" ["method", "path"]
        "Time from the head of a request to its answer, without a wait that the client asked for.";
    HTTP_ERRORS = Counter "taskqueue_http_errors_total" ["code"] "Answers with an error, by its code.";
    HTTP_CONNECTIONS = Gauge "taskqueue_http_connections" ["state"]
        "Open connections: busy with a request, or idle.";
    HTTP_CONNECTIONS_LIMIT = Gauge "taskqueue_http_connections_limit" []
        "Connections that may be open; a new one then replaces an idle one or waits.";
    WAITING = Gauge "taskqueue_waiting_requests" ["kind"]
        "Requests that wait, as their client asked: claim, heartbeat, output.";
    WAITING_LIMIT = Gauge "taskqueue_waiting_requests_limit" []
        "Requests that may wait at once; further ones are answered without a wait.";

    // Queues, of the whole database
    TASKS = Gauge "taskqueue_tasks" ["queue", "status"] "Tasks.";
    PENDING = Gauge "taskqueue_pending_tasks" ["queue", "state"]
        "Pending tasks by what they wait for: claimable for a claim, delayed for their time, blocked for a dependency, paused only for the end of the pause of their queue. Missing if that is too much to count.";
    QUEUE_PAUSED = Gauge "taskqueue_queue_paused" ["queue"] "1 if the queue is paused, otherwise 0.";
    QUEUE_LIMIT = Gauge "taskqueue_queue_running_limit" ["queue"]
        "How many tasks of the queue may be running; missing without a limit.";
    ROUTE_LIMIT = Gauge "taskqueue_route_running_limit" ["queue", "route"]
        "How many tasks that were claimed for the route may be running; missing without a limit, and while nobody uses the route.";
    ROUTE_TASKS = Gauge "taskqueue_route_tasks" ["queue", "route", "status"]
        "Pending and running tasks by route. A task counts for each of its routes.";
    OLDEST_PENDING = Gauge "taskqueue_oldest_pending_seconds" ["queue", "route"]
        "How long the task has been pending that has been for longest; missing if no task is pending. For `other` it is that of the first 100 routes of each queue by name. Tasks that cannot be claimed yet (`not_before`, dependencies) do not count.";
    OLDEST_CLAIMABLE = Gauge "taskqueue_oldest_claimable_seconds" ["queue", "route"]
        "How long the task has been pending that has been for longest of those that a claim could take now; missing if there is none, or for a moment while a long write keeps SQLite busy. Neither tasks that cannot be claimed yet count, nor those that the settings of their queue keep from it: it is paused, or the limit of queue or route is 0.";
    WORKERS = Gauge "taskqueue_workers" ["queue", "route", "status"] "Workers that reported themselves lately.";

    // What happened, counted by this process
    TASK_EVENTS = Counter "taskqueue_task_events_total" ["queue", "event"]
        "What happened to tasks: created, claimed and cancelled tasks; ends of runs that succeeded, failed, were released or expired.";
    TASK_WAIT = Histogram "taskqueue_task_wait_seconds" ["queue"] "From the creation of a task to its first claim.";
    TASK_RUN = Histogram "taskqueue_task_run_seconds" ["queue"]
        "From the claim to the end of runs that succeeded or failed.";

    // The storage, in this process
    WRITER_COMMANDS = Histogram "taskqueue_writer_transaction_commands" []
        "Commands of each committed transaction.";
    WRITER_COMMIT = Histogram "taskqueue_writer_commit_seconds" []
        "Duration of commits. SQLite syncs its log within; PostgreSQL also receives the changes.";
    WRITER_SYNC = Histogram "taskqueue_writer_sync_seconds" []
        "Duration of syncs of the SQLite database file by its checkpoints, outside of commits.";
    WRITER_QUEUE = Gauge "taskqueue_writer_queue_length" [] "Commands that wait for a writer.";
    WRITER_CAPACITY = Gauge "taskqueue_writer_queue_capacity" []
        "Commands that may wait for a writer; further ones are answered 503 database_busy.";
    WRITER_FAILURES = Counter "taskqueue_writer_failures_total" []
        "Transactions that failed because the storage did.";
    READERS = Gauge "taskqueue_readers" [] "Threads or connections for reads of bounded cost.";
    READERS_IN_USE = Gauge "taskqueue_readers_in_use" [] "Of these, how many read.";
    LONG_READS = Gauge "taskqueue_long_reads" [] "Reads under way that may visit every task.";
    DATABASE_BYTES = Gauge "taskqueue_database_bytes" [] "What the database takes on disk, as far as it is known.";

    // The process
    BUDGET = Gauge "taskqueue_memory_budget_bytes" ["part"]
        "Memory that requests and answers may take: answers, bodies, heads, parsing.";
    BUDGET_USED = Gauge "taskqueue_memory_budget_used_bytes" ["part"] "Of this, what is reserved.";
    MEMORY_LIMIT = Gauge "taskqueue_memory_limit_bytes" []
        "The smallest limit of memory that the system sets for this process; missing if there is none.";
    LOG_LINES_LOST = Counter "taskqueue_log_lines_lost_total" [] "Log lines that could not be written.";
    CPU = Counter "process_cpu_seconds_total" [] "User and system time.";
    RESIDENT = Gauge "process_resident_memory_bytes" [] "Resident memory.";
    VIRTUAL = Gauge "process_virtual_memory_bytes" [] "Virtual memory.";
    OPEN_FDS = Gauge "process_open_fds" [] "Open file descriptors.";
    MAX_FDS = Gauge "process_max_fds" [] "File descriptors that may be open.";
    START_TIME = Gauge "process_start_time_seconds" [] "When the process began, in seconds since 1970.";
}
