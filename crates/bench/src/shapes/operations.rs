//! The list of all request shapes of the API: a row for each way in which a request can be as large as it may be. `coverage_tests.rs` compares it
//! with `/openapi.json`: an operation, a query parameter, a header or a field of a body without a row does not pass. What the
//! largest value of a field is stands in `fields.rs`; the pages of the dashboard are in `pages.rs`.

use taskqueue_api::paths::{
    BATCH_CLAIM, BATCH_CREATE, BATCH_REPORT, BULK_CANCEL, BULK_DELETE, BULK_REQUEUE, CANCEL, CAPABILITIES, CLAIM,
    COMPLETE, EXPLAIN, FAIL, HEALTH, HEARTBEAT, LIVEZ, METRICS, OPENAPI, OUTPUT, PROGRESS, QUEUE, QUEUES, READYZ,
    REQUEUE, SETTINGS, STATS, TASK, TASK_COUNT, TASKS, TELEMETRY, UNCLAIM, WORKER, WORKER_COUNT, WORKERS,
};
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
    shape("GET", HEALTH, "", Nothing, &[]),
    shape("GET", LIVEZ, "", Nothing, &[]),
    shape("GET", READYZ, "", Nothing, &[]),
    shape("GET", OPENAPI, "", Nothing, &[]),
    shape("GET", METRICS, "routes", ManyQueues, &[]).holds(Times("oldest_pending_seconds{", &[METRICS_ROUTES])),
    shape("GET", CAPABILITIES, "", Nothing, &[]),
    // Queues
    shape("GET", QUEUES, "routes", ManyQueues, &[]).holds(Times("{\"name\":\"s", &[2])),
    shape("PUT", QUEUE, "", NoQueue, &[]),
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
    shape("PATCH", TASKS, "routes", Shared("", MANY), &[BULK, "changes.", "routes priority"]).holds(OrRefusal),
    shape("PATCH", TASKS, "dependencies", Shared("", MANY), &[BULK, "changes.", "dependencies priority"]).holds(OrRefusal),
    shape("PATCH", TASKS, "outcome", Cancelled, &[BULK, "changes.", "archived result"]).holds(Number("\"updated\":", &[1])),
    shape("GET", TASK_COUNT, "args", Stored(World::Large), &[SELECTORS]).holds(Number("\"count\":", &[STORED_TASKS])),
    shape("GET", TASK_COUNT, "routes", Stored(World::Routes), &["?name=stored_name ?group_by ?limit"]).holds(Times("{\"key\":", &[PAGE])),
    shape("GET", TASK_COUNT, "groups", Stored(World::Routes), &["?group_by ?limit ?cursor"]).holds(Times("{\"key\":", &[PAGE])),
    shape("POST", CANCEL, "dependencies", Pending, &[]),
    shape("POST", REQUEUE, "dependencies", Cancelled, &[]),
    shape("GET", EXPLAIN, "dependencies", Stored(World::Dependent), &[]).holds(Times("t_nobody", &[EXPLAINED_DEPENDENCIES])),
    shape("POST", BULK_CANCEL, "dependencies", Shared("dependencies", DEPENDENT), &[BULK]).holds(Number("\"changed\":", &[DEPENDENT])),
    shape("POST", BULK_CANCEL, "routes", Shared("routes", 200), &[BULK]).holds(Number("\"changed\":", &[200])),
    shape("POST", BULK_CANCEL, "dry_run", Shared("", MANY), &[BULK, "dry_run expect"]).holds(Number("\"matched\":", &[MANY])),
    shape("POST", BULK_REQUEUE, "dependencies", SharedCancelled("dependencies", DEPENDENT), &[BULK]).holds(Number("\"changed\":", &[DEPENDENT])),
    shape("POST", BULK_REQUEUE, "dry_run", SharedCancelled("", MANY), &[BULK, "dry_run expect"]).holds(Number("\"matched\":", &[MANY])),
    shape("POST", BULK_DELETE, "dependencies", Shared("dependencies", DEPENDENT), &[BULK]).holds(Number("\"changed\":", &[DEPENDENT])),
    shape("POST", BULK_DELETE, "args", Shared("args", LARGE), &[BULK]).holds(Number("\"changed\":", &[LARGE])),
    shape("POST", BULK_DELETE, "dry_run", Shared("", MANY), &[BULK, "dry_run expect"]).holds(Number("\"matched\":", &[MANY])),
    // Worker observations
    shape("GET", WORKERS, "all", Workers, &["?filter=worker_filter ?limit"]).holds(Times("{\"id\":\"w_", &[WORKERS_AT_ONCE])),
    shape("GET", WORKERS, "cursor", Workers, &["?filter=worker_filter ?limit ?cursor"]).holds(Times("{\"id\":\"w_", &[WORKERS_AT_ONCE])),
    shape("GET", WORKER_COUNT, "all", Workers, &["?filter=worker_filter"]).holds(Number("\"count\":", &[STORED_WORKERS])),
    shape("GET", WORKER_COUNT, "groups", Workers, &["?group_by=group_by_workers ?limit"]).holds(Times("{\"key\":", &[2])),
    shape("GET", WORKER_COUNT, "cursor", Workers, &["?group_by=group_by_workers ?limit='1 ?cursor"]).holds(Times("{\"key\":", &[1])),
    shape("PUT", WORKER, "all", Nothing, &["route status task_id metadata=observed"]),
    shape("DELETE", WORKER, "all", OwnWorker, &[]),
    shape("POST", TELEMETRY, "all", OwnWorker, &["telemetry"]),
    // Worker protocol
    shape("POST", CLAIM, "args", Pending, &["Prefer: route run_id worker"]).holds(Bytes(&[LARGE_BYTES])),
    shape("POST", HEARTBEAT, "outcome", Running(1), &["Prefer: run_id progress"]),
    shape("POST", PROGRESS, "outcome", Running(1), &["run_id progress"]),
    shape("POST", COMPLETE, "outcome", Running(1), &["run_id result"]),
    shape("POST", FAIL, "outcome", Running(1), &["run_id retry retry_after_seconds error.type error.message error.traceback"]),
    shape("POST", UNCLAIM, "", Running(1), &["run_id delay_seconds"]),
    // Output
    shape("POST", OUTPUT, "", Running(1), &["run_id offset=end text"]),
    shape("GET", OUTPUT, "", Output("text"), &["?offset"]).holds(Bytes(&[OUTPUT_ANSWER_BYTES / 10 * 9])),
    shape("GET", OUTPUT, "Prefer", Output("text"), &["Prefer: ?offset=end"]).holds(Times("\"text\":\"\"", &[1])),
    // Batches
    shape("POST", BATCH_CREATE, "dependencies", Nothing, &["tasks.[]", "id", DEFINITION, WAITING]),
    // So many have hardly room in the memory of pending tasks on SQLite, beside what is stored.
    shape("POST", BATCH_CREATE, "routes", Nothing, &["tasks.[]", "id", DEFINITION]).holds(OrBusy),
    shape("POST", BATCH_CREATE, "args", Nothing, &["tasks.[]", "id", DEFINITION, WAITING]),
    shape("POST", BATCH_CREATE, "", Nothing, &["tasks.[]", "id args"]),
    shape("POST", BATCH_CLAIM, "run_ids", Shared("", MANY), &["Prefer: route run_ids worker"]).holds(Times("\"outcome\":\"claimed\"", &[BATCH_ITEMS])),
    shape("POST", BATCH_CLAIM, "workers", Shared("", MANY), &["Prefer: route run_ids workers"]).holds(Times("\"outcome\":\"claimed\"", &[BATCH_ITEMS])),
    shape("POST", BATCH_CLAIM, "args", Shared("args", LARGE), &["Prefer: route run_ids"]).holds(Bytes(&[LARGE_AT_ONCE, LARGE_BYTES])),
    shape("POST", BATCH_REPORT, "", Running(1_000), &["reports.[]", "task_id run_id action='heartbeat progress"]),
    shape("POST", BATCH_REPORT, "outcome", Running(16), &["reports.[]", "task_id run_id action='complete result"]),
    shape("POST", BATCH_REPORT, "progress", Running(1_000), &["reports.[]", "task_id run_id action='progress progress"]),
    shape("POST", BATCH_REPORT, "unclaim", Running(1_000), &["reports.[]", "task_id run_id action='unclaim delay_seconds"]),
    shape("POST", BATCH_REPORT, "fail", Running(1_000), &["reports.[]", "task_id run_id action='fail retry retry_after_seconds error.type error.message error.traceback"]),
];
