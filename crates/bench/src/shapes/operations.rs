//! The list of all request shapes of the API: a row for each way in which a request can be as large as it may be. `coverage.rs` compares it with
//! `/openapi.json`: an operation, a query parameter, a header or a field of a body without a row does not pass. What the
//! largest value of a field is stands in `fields.rs`; the pages of the dashboard are in `pages.rs`.

use taskqueue_core::limits::{
    BATCH_ITEMS, EXPLAINED_DEPENDENCIES, OUTPUT_ANSWER_BYTES, PAGE_LIMIT_MAX, ROUTE_LIMITS_MAX, STATS_ROUTES,
    TASK_DATA_BYTES,
};

use super::fields::DEFINITION;
use super::shape::{Before::*, Least::*, Shape, World, shape};
use super::world::{ROUTED_TASKS, STORED_TASKS, WORKERS as STORED_WORKERS};

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
/// The least that an answer has of each of the large ones.
const LARGE_BYTES: usize = TASK_DATA_BYTES / 10 * 8;
/// Large ones that a page or a batch has room for.
const LARGE_AT_ONCE: usize = 16;
const PAGE: usize = PAGE_LIMIT_MAX as usize;
/// Workers with as much metadata as can be that a page has room for.
const WORKERS_AT_ONCE: usize = 250;
/// Routes that metrics name.
const METRICS_ROUTES: usize = 100;

#[rustfmt::skip]
pub(super) const OPERATIONS: &[Shape] = &[
    // Discovery
    shape("GET", "/health", "", Nothing, &[]),
    shape("GET", "/livez", "", Nothing, &[]),
    shape("GET", "/readyz", "", Nothing, &[]),
    shape("GET", "/openapi.json", "", Nothing, &[]),
    shape("GET", "/metrics", "routes", ManyQueues, &[]).holds(Times("oldest_pending_seconds{", &[METRICS_ROUTES])),
    shape("GET", "/api/v2/capabilities", "", Nothing, &[]),
    // Queues
    shape("GET", "/api/v2/queues", "routes", ManyQueues, &[]).holds(Times("{\"name\":\"s", &[2])),
    shape("PUT", QUEUE, "", Nothing, &[]),
    shape("DELETE", QUEUE, "dependencies", OwnQueue("dependencies", DEPENDENT), &["?cascade"]),
    shape("DELETE", QUEUE, "routes", OwnQueue("routes", 200), &["?cascade"]),
    shape("GET", STATS, "routes", ManyQueues, &[]).holds(Times("{\"route\":\"r", &[ROUTED_TASKS, STATS_ROUTES / ROUTED_TASKS])),
    shape("GET", STATS, "series", Stored(World::Large), &["?series ?from ?to"]).holds(Number("\"created\":", &[STORED_TASKS])),
    shape("GET", SETTINGS, "limits", LimitedQueue, &[]).holds(Times("\":9223372036854775807", &[ROUTE_LIMITS_MAX])),
    shape("PATCH", SETTINGS, "all", OwnQueue("", 1), &["max_running paused route_limits route_limits.*", "retention.succeeded_seconds retention.failed_seconds retention.cancelled_seconds"]),
    // Tasks
    shape("PUT", TASK, "all", Nothing, &[DEFINITION, WAITING]),
    shape("PUT", TASK, "routes", Nothing, &[DEFINITION]),
    shape("PUT", TASK, "circle", Waiting, &["dependencies=circle"]),
    shape("GET", TASK, "args", Stored(World::Large), &[]).holds(Bytes(&[LARGE_BYTES])),
    shape("PATCH", TASK, "all", Pending, &[DEFINITION, WAITING]),
    shape("PATCH", TASK, "args", Pending, &["args_patch metadata_patch"]),
    shape("PATCH", TASK, "outcome", Cancelled, &["archived result"]),
    shape("DELETE", TASK, "dependencies", Pending, &[]),
    shape("GET", TASKS, "args", Stored(World::Large), &["?order_by ?descending ?limit", SELECTORS]).holds(Bytes(&[LARGE_AT_ONCE, LARGE_BYTES])),
    shape("GET", TASKS, "cursor", Stored(World::Large), &["?order_by ?descending ?limit ?cursor", SELECTORS]).holds(Times("{\"id\":\"t_", &[PAGE])),
    shape("GET", TASKS, "name", Stored(World::Large), &["?name=stored_name ?limit"]).holds(Bytes(&[LARGE_AT_ONCE, LARGE_BYTES])),
    shape("PATCH", TASKS, "all", Shared("", LARGE), &[BULK, "changes.", DEFINITION, WAITING]).holds(Number("\"updated\":", &[LARGE])),
    shape("PATCH", TASKS, "args", Shared("args", LARGE), &[BULK, "changes.", "args_patch metadata_patch"]).holds(Number("\"updated\":", &[LARGE])),
    shape("PATCH", TASKS, "priority", Shared("args", LARGE), &[BULK, "changes.", "priority"]).holds(Number("\"updated\":", &[LARGE])),
    shape("PATCH", TASKS, "routes", Shared("", MANY), &[BULK, "changes.", "routes priority"]).or_refused(),
    shape("PATCH", TASKS, "dependencies", Shared("", MANY), &[BULK, "changes.", "dependencies priority"]).or_refused(),
    shape("PATCH", TASKS, "outcome", Cancelled, &[BULK, "changes.", "archived result"]).holds(Number("\"updated\":", &[1])),
    shape("GET", COUNT, "args", Stored(World::Large), &[SELECTORS]).holds(Number("\"count\":", &[STORED_TASKS])),
    shape("GET", COUNT, "routes", Stored(World::Routes), &["?name=stored_name ?group_by ?limit"]).holds(Times("{\"key\":", &[PAGE])),
    shape("GET", COUNT, "groups", Stored(World::Routes), &["?group_by ?limit ?cursor"]).holds(Times("{\"key\":", &[PAGE])),
    shape("POST", "/api/v2/queues/{queue}/tasks/{task_id}/cancel", "dependencies", Pending, &[]),
    shape("POST", "/api/v2/queues/{queue}/tasks/{task_id}/requeue", "dependencies", Cancelled, &[]),
    shape("GET", "/api/v2/queues/{queue}/tasks/{task_id}/explain", "dependencies", Stored(World::Dependent), &[]).holds(Times("t_nobody", &[EXPLAINED_DEPENDENCIES])),
    shape("POST", CANCEL_ALL, "dependencies", Shared("dependencies", DEPENDENT), &[BULK]).holds(Number("\"changed\":", &[DEPENDENT])),
    shape("POST", CANCEL_ALL, "routes", Shared("routes", 200), &[BULK]).holds(Number("\"changed\":", &[200])),
    shape("POST", CANCEL_ALL, "dry_run", Shared("", MANY), &[BULK, "dry_run expect"]).holds(Number("\"matched\":", &[MANY])),
    shape("POST", REQUEUE_ALL, "dependencies", SharedCancelled("dependencies", DEPENDENT), &[BULK]).holds(Number("\"changed\":", &[DEPENDENT])),
    shape("POST", REQUEUE_ALL, "dry_run", SharedCancelled("", MANY), &[BULK, "dry_run expect"]).holds(Number("\"matched\":", &[MANY])),
    shape("POST", DELETE_ALL, "dependencies", Shared("dependencies", DEPENDENT), &[BULK]).holds(Number("\"changed\":", &[DEPENDENT])),
    shape("POST", DELETE_ALL, "args", Shared("args", LARGE), &[BULK]).holds(Number("\"changed\":", &[LARGE])),
    shape("POST", DELETE_ALL, "dry_run", Shared("", MANY), &[BULK, "dry_run expect"]).holds(Number("\"matched\":", &[MANY])),
    // Worker observations
    shape("GET", WORKERS, "all", Workers(0), &["?filter=worker_filter ?limit"]).holds(Times("{\"id\":\"w_", &[WORKERS_AT_ONCE])),
    shape("GET", WORKERS, "cursor", Workers(0), &["?filter=worker_filter ?limit ?cursor"]).holds(Times("{\"id\":\"w_", &[WORKERS_AT_ONCE])),
    shape("GET", "/api/v2/queues/{queue}/workers/count", "all", Workers(0), &["?filter=worker_filter"]).holds(Number("\"count\":", &[STORED_WORKERS])),
    shape("GET", "/api/v2/queues/{queue}/workers/count", "groups", Workers(0), &["?group_by=group_by_workers ?limit"]).holds(Times("{\"key\":", &[2])),
    shape("GET", "/api/v2/queues/{queue}/workers/count", "cursor", Workers(0), &["?group_by=group_by_workers ?limit='1 ?cursor"]).holds(Times("{\"key\":", &[1])),
    shape("PUT", WORKER, "all", Nothing, &["route status task_id metadata=observed"]),
    shape("DELETE", WORKER, "all", OwnWorker, &[]),
    shape("POST", "/api/v2/queues/{queue}/workers/{id}/telemetry", "all", OwnWorker, &["telemetry"]),
    // Worker protocol
    shape("POST", "/api/v2/queues/{queue}/tasks/claim", "args", Pending, &["Prefer: route run_id worker"]).holds(Bytes(&[LARGE_BYTES])),
    shape("POST", "/api/v2/queues/{queue}/tasks/{task_id}/heartbeat", "outcome", Running(1), &["Prefer: run_id progress"]),
    shape("POST", "/api/v2/queues/{queue}/tasks/{task_id}/progress", "outcome", Running(1), &["run_id progress"]),
    shape("POST", "/api/v2/queues/{queue}/tasks/{task_id}/complete", "outcome", Running(1), &["run_id result"]),
    shape("POST", "/api/v2/queues/{queue}/tasks/{task_id}/fail", "outcome", Running(1), &["run_id retry retry_after_seconds error.type error.message error.traceback"]),
    shape("POST", "/api/v2/queues/{queue}/tasks/{task_id}/unclaim", "", Running(1), &["run_id delay_seconds"]),
    // Output
    shape("POST", OUTPUT, "", Running(1), &["run_id offset=end text"]),
    shape("GET", OUTPUT, "", Output("text"), &["?offset"]).holds(Bytes(&[OUTPUT_ANSWER_BYTES / 10 * 9])),
    shape("GET", OUTPUT, "Prefer", Output("text"), &["Prefer: ?offset=end"]).holds(Times("\"text\":\"\"", &[1])),
    // Batches
    shape("POST", CREATE, "dependencies", Nothing, &["tasks.[]", "id", DEFINITION, WAITING]),
    // So many have hardly room in the memory of pending tasks on SQLite, beside what is stored.
    shape("POST", CREATE, "routes", Nothing, &["tasks.[]", "id", DEFINITION]).or_busy(),
    shape("POST", CREATE, "args", Nothing, &["tasks.[]", "id", DEFINITION, WAITING]),
    shape("POST", CREATE, "", Nothing, &["tasks.[]", "id args"]),
    shape("POST", CLAIM, "run_ids", Shared("", MANY), &["Prefer: route run_ids worker"]).holds(Times("\"outcome\":\"claimed\"", &[BATCH_ITEMS])),
    shape("POST", CLAIM, "workers", Shared("", MANY), &["Prefer: route run_ids workers"]).holds(Times("\"outcome\":\"claimed\"", &[BATCH_ITEMS])),
    shape("POST", CLAIM, "args", Shared("args", LARGE), &["Prefer: route run_ids"]).holds(Bytes(&[LARGE_AT_ONCE, LARGE_BYTES])),
    shape("POST", REPORT, "", Running(1_000), &["reports.[]", "task_id run_id action='heartbeat progress"]),
    shape("POST", REPORT, "outcome", Running(16), &["reports.[]", "task_id run_id action='complete result"]),
    shape("POST", REPORT, "progress", Running(1_000), &["reports.[]", "task_id run_id action='progress progress"]),
    shape("POST", REPORT, "unclaim", Running(1_000), &["reports.[]", "task_id run_id action='unclaim delay_seconds"]),
    shape("POST", REPORT, "fail", Running(1_000), &["reports.[]", "task_id run_id action='fail retry retry_after_seconds error.type error.message error.traceback"]),
];
