//! A look at the tables past the store: what stands in several places is the same everywhere, and nothing is left over.

use std::sync::Arc;

use taskqueue_store::check::Watch;
use taskqueue_store_postgres::Address;
use taskqueue_test_postgres::Database;

/// What is never there, and what `taskqueue check` does not look for: it would do no harm, or not yet. Queues that are being purged are
/// left out where a purge works on them bit by bit.
const NEVER: &[(&str, &str)] = &[
    (
        "a task that is delayed and in the claim's order, or delayed and not so",
        "SELECT delayed.* FROM taskqueue.delayed LEFT JOIN taskqueue.tasks USING (queue_key, not_before, task_key)
        WHERE delayed.queue_key IN (SELECT queue_key FROM taskqueue.queues) AND (
            tasks.task_key IS NULL OR tasks.status <> 'pending' OR tasks.unmet IS NOT NULL
            OR delayed.task_key IN (SELECT task_key FROM taskqueue.ready)
        )",
    ),
    (
        "a task that waits for what has succeeded, or no longer for what has not",
        "SELECT waiting.id, dependencies.* FROM taskqueue.dependencies
        JOIN taskqueue.tasks AS waiting USING (task_key)
        JOIN taskqueue.tasks ON tasks.queue_key = dependencies.queue_key AND tasks.id = dependencies.dependency
        WHERE (tasks.status = 'succeeded') <> (state = 1) AND NOT EXISTS (
            SELECT 1 FROM taskqueue.unsettled WHERE unsettled.queue_key = dependencies.queue_key
                AND unsettled.dependency = dependencies.dependency
        )",
    ),
    (
        "a row of a waiting task of no queue that nobody purges",
        "SELECT queue_key FROM (
            SELECT queue_key FROM taskqueue.delayed UNION SELECT queue_key FROM taskqueue.dependencies
        ) AS rows WHERE queue_key NOT IN (SELECT queue_key FROM taskqueue.queues)
        AND queue_key NOT IN (SELECT queue_key FROM taskqueue.purges)",
    ),
    (
        "a running task with a route that nobody counts",
        "SELECT task_key, route FROM taskqueue.running WHERE queue_key IS NULL AND route IS NOT NULL",
    ),
    (
        "what is noted of an ended task that nobody purges",
        "SELECT * FROM taskqueue.ended WHERE queue_key NOT IN (SELECT queue_key FROM taskqueue.queues)
        AND queue_key NOT IN (SELECT queue_key FROM taskqueue.purges)",
    ),
    (
        "a task that ended without success on one side only",
        "(SELECT task_key, queue_key, status FROM taskqueue.tasks WHERE status IN ('failed', 'cancelled')
        EXCEPT ALL SELECT task_key, queue_key, status FROM taskqueue.unsuccessful)
        UNION ALL
        (SELECT task_key, queue_key, status FROM taskqueue.unsuccessful
        EXCEPT ALL SELECT task_key, queue_key, status FROM taskqueue.tasks WHERE status IN ('failed', 'cancelled'))",
    ),
    (
        "a run exactly while running, with a lease",
        "SELECT * FROM taskqueue.tasks WHERE (status = 'running') <> (run_id IS NOT NULL)
        OR (status = 'running') <> (lease_expires_at IS NOT NULL)",
    ),
    (
        "a run that is kept for a deleted task which is there",
        "SELECT * FROM taskqueue.runs WHERE kept_until IS NOT NULL AND task_key IN (SELECT task_key FROM taskqueue.tasks)",
    ),
    (
        "activity of no queue",
        "SELECT * FROM taskqueue.activity WHERE queue_key NOT IN (SELECT queue_key FROM taskqueue.queues)",
    ),
    (
        "output of a task that is there and is purged",
        "SELECT task_key FROM taskqueue.output_purges WHERE task_key IN (SELECT task_key FROM taskqueue.tasks)",
    ),
    (
        "a piece of output that is not needed",
        "SELECT task_key, start FROM taskqueue.output_pieces JOIN taskqueue.outputs USING (task_key)
        WHERE start + octet_length(output_pieces.bytes) <= split_part(outputs.parts, '-', 1)::bigint
            OR start + octet_length(output_pieces.bytes) > outputs.end_offset",
    ),
    (
        "output whose pieces do not hold its bytes",
        "SELECT task_key, outputs.bytes, held FROM taskqueue.outputs LEFT JOIN (
            SELECT task_key, max(start) AS last_start, max(start + octet_length(output_pieces.bytes)) AS end_offset,
                sum(octet_length(output_pieces.bytes) - greatest(split_part(outputs.parts, '-', 1)::bigint - start, 0)) AS held
            FROM taskqueue.output_pieces JOIN taskqueue.outputs USING (task_key) GROUP BY task_key
        ) AS pieces USING (task_key)
        WHERE (outputs.bytes, outputs.last_start, outputs.end_offset)
            IS DISTINCT FROM (pieces.held, pieces.last_start, pieces.end_offset)",
    ),
];

/// `taskqueue check` finds nothing wrong, also while stores are open.
pub(crate) async fn assert_sound(database: &Database) {
    let address = Address::parse(&database.url()).unwrap();
    let mut watch = Watch { stop: Arc::default(), report: &mut |_| {} };
    let checked = taskqueue_store_postgres::check(address, "taskqueue", &mut watch).await;
    let report = checked.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.rules_checked && report.findings.is_sound(), "{report:#?}");
}

/// The same, and a look at the tables. Nobody may be writing.
pub(crate) async fn assert_tables_are_consistent(database: &Database) {
    assert_sound(database).await;
    let all: Vec<_> =
        NEVER.iter().map(|(what, sql)| format!("SELECT $${what}$$, found::text FROM ({sql}) AS found")).collect();
    assert_eq!(database.rows(&all.join(" UNION ALL ")), Vec::<Vec<_>>::new());
}
