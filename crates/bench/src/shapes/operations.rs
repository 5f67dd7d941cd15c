//! The list of all request shapes of the API: a row for each way in which a request can be as large as it may be. `coverage.rs` compares it with
//! `/openapi.json`: an operation, a query parameter, a header or a field of a body without a row does not pass. What the
//! largest value of a field is stands in `fields.rs`; the pages of the dashboard are in `pages.rs`.

use super::shape::Before::{
    Cancelled, ManyQueues, Nothing, Output, OwnQueue, OwnWorker, Pending, Running, Shared, Stored, Workers,
};
use super::shape::{Shape, World, shape};

const DEFINITION: &str = "name args metadata priority max_attempts routes retry_delay.seconds retry_delay.factor retry_delay.max_seconds timeout_seconds";
const WAITING: &str = "dependencies on_dependency_failure not_before";
const SELECTORS: &str = "?status='pending ?name_fuzzy ?filter ?include_archived";
const BULK: &str = "filter include_archived";

const QUEUE: &str = "/api/v2/queues/{queue}";
const SETTINGS: &str = "/api/v2/queues/{queue}/settings";
const STATS: &str = "/api/v2/queues/{queue}/stats";
const TASKS: &str = "/api/v2/queues/{queue}/tasks";
const COUNT: &str = "/api/v2/queues/{queue}/tasks/count";
const TASK: &str = "/api/v2/queues/{queue}/tasks/{task_id}";
const OUTPUT: &str = "/api/v2/queues/{queue}/tasks/{task_id}/output";
const CREATE: &str = "/api/v2/queues/{queue}/tasks/batch/create";
const CLAIM: &str = "/api/v2/queues/{queue}/tasks/batch/claim";
const REPORT: &str = "/api/v2/queues/{queue}/tasks/batch/report";
const CANCEL_ALL: &str = "/api/v2/queues/{queue}/tasks/bulk/cancel";
const REQUEUE_ALL: &str = "/api/v2/queues/{queue}/tasks/bulk/requeue";
const DELETE_ALL: &str = "/api/v2/queues/{queue}/tasks/bulk/delete";
const WORKERS: &str = "/api/v2/queues/{queue}/workers";
const WORKER: &str = "/api/v2/queues/{queue}/workers/{id}";

/// Tasks of each of which a large one is a megabyte.
const LARGE: usize = 20;
/// Tasks with as many dependencies as can be: as many as one batch creates.
const DEPENDENT: usize = 900;
/// Small tasks.
const MANY: usize = 5_000;

pub(super) const OPERATIONS: &[Shape] = &[
    // Discovery
    shape("GET", "/health", "", Nothing, &[]),
    shape("GET", "/livez", "", Nothing, &[]),
    shape("GET", "/readyz", "", Nothing, &[]),
    shape("GET", "/openapi.json", "", Nothing, &[]),
    shape("GET", "/metrics", "routes", ManyQueues, &[]),
    shape("GET", "/api/v2/capabilities", "", Nothing, &[]),
    // Queues
    shape("GET", "/api/v2/queues", "routes", ManyQueues, &[]),
    shape("PUT", QUEUE, "", Nothing, &[]),
    shape("DELETE", QUEUE, "dependencies", OwnQueue("dependencies", DEPENDENT), &["?cascade"]),
    shape("DELETE", QUEUE, "routes", OwnQueue("routes", 200), &["?cascade"]),
    shape("GET", STATS, "routes", ManyQueues, &[]),
    shape("GET", STATS, "series", Stored(World::Large), &["?series ?from ?to"]),
    shape("GET", SETTINGS, "", OwnQueue("", 1), &[]),
    shape(
        "PATCH",
        SETTINGS,
        "all",
        OwnQueue("", 1),
        &[
            "max_running paused route_limits route_limits.*",
            "retention.succeeded_seconds retention.failed_seconds retention.cancelled_seconds",
        ],
    ),
    // Tasks
    shape("PUT", TASK, "all", Nothing, &[DEFINITION, WAITING]),
    shape("PUT", TASK, "routes", Nothing, &[DEFINITION]),
    shape("GET", TASK, "args", Stored(World::Large), &[]),
    shape("PATCH", TASK, "all", Pending, &[DEFINITION, WAITING]),
    shape("PATCH", TASK, "args", Pending, &["args_patch metadata_patch"]),
    shape("PATCH", TASK, "outcome", Cancelled, &["archived result"]),
    shape("DELETE", TASK, "dependencies", Pending, &[]),
    shape("GET", TASKS, "args", Stored(World::Large), &["?order_by ?descending ?limit ?cursor", SELECTORS]),
    shape("GET", TASKS, "name", Stored(World::Large), &["?name ?limit"]),
    shape("PATCH", TASKS, "all", Shared("", LARGE), &[BULK, "changes.", DEFINITION, WAITING]),
    shape("PATCH", TASKS, "args", Shared("args", LARGE), &[BULK, "changes.", "args_patch metadata_patch"]),
    shape("PATCH", TASKS, "priority", Shared("args", LARGE), &[BULK, "changes.", "priority"]),
    shape("PATCH", TASKS, "routes", Shared("", MANY), &[BULK, "changes.", "routes priority"]).or_refused(),
    shape("PATCH", TASKS, "dependencies", Shared("", MANY), &[BULK, "changes.", "dependencies priority"]).or_refused(),
    shape("PATCH", TASKS, "outcome", Cancelled, &[BULK, "changes.", "archived result"]),
    shape("GET", COUNT, "args", Stored(World::Large), &[SELECTORS]),
    shape("GET", COUNT, "routes", Stored(World::Routes), &["?name ?group_by ?limit"]),
    shape("GET", COUNT, "groups", Stored(World::Routes), &["?group_by ?limit ?cursor"]),
    shape("POST", "/api/v2/queues/{queue}/tasks/{task_id}/cancel", "dependencies", Pending, &[]),
    shape("POST", "/api/v2/queues/{queue}/tasks/{task_id}/requeue", "dependencies", Cancelled, &[]),
    shape("GET", "/api/v2/queues/{queue}/tasks/{task_id}/explain", "dependencies", Stored(World::Dependent), &[]),
    shape("POST", CANCEL_ALL, "dependencies", Shared("dependencies", DEPENDENT), &[BULK]),
    shape("POST", CANCEL_ALL, "routes", Shared("routes", 200), &[BULK]),
    shape("POST", CANCEL_ALL, "dry_run", Shared("", MANY), &[BULK, "dry_run expect"]),
    shape("POST", REQUEUE_ALL, "dependencies", Shared("dependencies", DEPENDENT).cancelled(), &[BULK]),
    shape("POST", REQUEUE_ALL, "dry_run", Shared("", MANY).cancelled(), &[BULK, "dry_run expect"]),
    shape("POST", DELETE_ALL, "dependencies", Shared("dependencies", DEPENDENT), &[BULK]),
    shape("POST", DELETE_ALL, "args", Shared("args", LARGE), &[BULK]),
    shape("POST", DELETE_ALL, "dry_run", Shared("", MANY), &[BULK, "dry_run expect"]),
    // Worker observations
    shape("GET", WORKERS, "all", Workers, &["?filter=worker_filter ?limit ?cursor"]),
    shape("GET", "/api/v2/queues/{queue}/workers/count", "all", Workers, &["?filter=worker_filter"]),
    shape("GET", "/api/v2/queues/{queue}/workers/count", "groups", Workers, &["?group_by=group_by_workers ?limit"]),
    shape(
        "GET",
        "/api/v2/queues/{queue}/workers/count",
        "cursor",
        Workers,
        &["?group_by=group_by_workers ?limit='1 ?cursor"],
    ),
    shape("PUT", WORKER, "all", Nothing, &["route status task_id metadata=observed"]),
    shape("DELETE", WORKER, "all", OwnWorker, &[]),
    shape("POST", "/api/v2/queues/{queue}/workers/{id}/telemetry", "all", OwnWorker, &["telemetry"]),
    // Worker protocol
    shape("POST", "/api/v2/queues/{queue}/tasks/claim", "args", Pending, &["Prefer: route run_id worker"]),
    shape(
        "POST",
        "/api/v2/queues/{queue}/tasks/{task_id}/heartbeat",
        "outcome",
        Running(1),
        &["Prefer: run_id progress"],
    ),
    shape("POST", "/api/v2/queues/{queue}/tasks/{task_id}/progress", "outcome", Running(1), &["run_id progress"]),
    shape("POST", "/api/v2/queues/{queue}/tasks/{task_id}/complete", "outcome", Running(1), &["run_id result"]),
    shape(
        "POST",
        "/api/v2/queues/{queue}/tasks/{task_id}/fail",
        "outcome",
        Running(1),
        &["run_id retry retry_after_seconds error.type error.message error.traceback"],
    ),
    shape("POST", "/api/v2/queues/{queue}/tasks/{task_id}/unclaim", "", Running(1), &["run_id delay_seconds"]),
    // Output
    shape("POST", OUTPUT, "", Running(1), &["run_id offset=end text"]),
    shape("GET", OUTPUT, "", Output, &["?offset"]),
    shape("GET", OUTPUT, "Prefer", Output, &["Prefer: ?offset=end"]),
    // Batches
    shape("POST", CREATE, "dependencies", Nothing, &["tasks.[]", "id", DEFINITION, WAITING]),
    shape("POST", CREATE, "routes", Nothing, &["tasks.[]", "id", DEFINITION]),
    shape("POST", CREATE, "args", Nothing, &["tasks.[]", "id", DEFINITION, WAITING]),
    shape("POST", CREATE, "", Nothing, &["tasks.[]", "id args"]),
    shape("POST", CLAIM, "run_ids", Shared("", MANY), &["Prefer: route run_ids worker"]),
    shape("POST", CLAIM, "args", Shared("args", LARGE), &["Prefer: route run_ids"]),
    shape("POST", REPORT, "", Running(1_000), &["reports.[]", "task_id run_id action='heartbeat progress"]),
    shape("POST", REPORT, "outcome", Running(16), &["reports.[]", "task_id run_id action='complete result"]),
    shape("POST", REPORT, "progress", Running(1_000), &["reports.[]", "task_id run_id action='progress progress"]),
    shape("POST", REPORT, "unclaim", Running(1_000), &["reports.[]", "task_id run_id action='unclaim delay_seconds"]),
    shape(
        "POST",
        REPORT,
        "fail",
        Running(1_000),
        &[
            "reports.[]",
            "task_id run_id action='fail retry retry_after_seconds error.type error.message error.traceback",
        ],
    ),
];
