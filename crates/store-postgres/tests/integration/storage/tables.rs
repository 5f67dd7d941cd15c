//! A look at the tables past the store: what stands in several places is the same everywhere, and nothing is left over.

use taskqueue_test_postgres::Database;

/// What is never there. Queues that are being purged are left out where a purge works on them bit by bit.
const NEVER: &[(&str, &str)] = &[
    (
        "a count that differs from the rows",
        "SELECT queue_key, routes, status, archived, sum(tasks) FROM (
            SELECT queue_key, routes, status, archived IS TRUE AS archived, count(*) AS tasks FROM taskqueue.tasks
            WHERE queue_key IN (SELECT queue_key FROM taskqueue.queues) GROUP BY queue_key, routes, status, archived IS TRUE
            UNION ALL SELECT queue_key, routes, status, shard < 0, -tasks FROM taskqueue.tally
        ) AS both_sides GROUP BY queue_key, routes, status, archived HAVING sum(tasks) <> 0",
    ),
    (
        "a place in the claim's order without its pending task",
        "SELECT queue_key, route, priority, pending_seq, task_key FROM taskqueue.ready
        WHERE queue_key IN (SELECT queue_key FROM taskqueue.queues)
        EXCEPT ALL SELECT queue_key, route, priority, pending_seq, task_key FROM taskqueue.tasks,
            jsonb_array_elements_text(routes::jsonb) AS route WHERE status = 'pending' AND unmet IS NULL",
    ),
    (
        "a pending task without its place in the claim's order",
        "SELECT queue_key, route, priority, pending_seq, task_key FROM taskqueue.tasks,
            jsonb_array_elements_text(routes::jsonb) AS route
        WHERE status = 'pending' AND unmet IS NULL AND queue_key IN (SELECT queue_key FROM taskqueue.queues)
            AND NOT EXISTS (
                SELECT 1 FROM taskqueue.delayed WHERE delayed.queue_key = tasks.queue_key
                    AND delayed.not_before = tasks.not_before AND delayed.task_key = tasks.task_key
            )
        EXCEPT ALL SELECT queue_key, route, priority, pending_seq, task_key FROM taskqueue.ready",
    ),
    (
        "a task that is delayed and in the claim's order, or delayed and not so",
        "SELECT delayed.* FROM taskqueue.delayed LEFT JOIN taskqueue.tasks USING (queue_key, not_before, task_key)
        WHERE delayed.queue_key IN (SELECT queue_key FROM taskqueue.queues) AND (
            tasks.task_key IS NULL OR tasks.status <> 'pending' OR tasks.unmet IS NOT NULL
            OR delayed.task_key IN (SELECT task_key FROM taskqueue.ready)
        )",
    ),
    (
        "what tasks wait for and what is noted of it",
        "SELECT task_key, unmet, noted FROM taskqueue.tasks FULL JOIN (
            SELECT task_key, array_agg(dependency ORDER BY dependency) AS ids, nullif(count(*) FILTER (WHERE state <> 1), 0) AS noted
            FROM taskqueue.dependencies GROUP BY task_key
        ) AS noted USING (task_key)
        WHERE queue_key IN (SELECT queue_key FROM taskqueue.queues) AND (unmet IS DISTINCT FROM noted OR ids IS DISTINCT FROM (
            SELECT array_agg(named.dependency COLLATE \"C\" ORDER BY named.dependency COLLATE \"C\")
            FROM jsonb_array_elements_text(scheduling::jsonb -> 'dependencies') AS named (dependency)
        ))",
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
        "a place in the claim's order that nobody purges",
        "SELECT * FROM taskqueue.ready WHERE queue_key NOT IN (SELECT queue_key FROM taskqueue.queues)
        AND queue_key NOT IN (SELECT queue_key FROM taskqueue.purges)",
    ),
    (
        "a task that runs on one side only",
        "SELECT task_key, running.task_key, status
        FROM taskqueue.running FULL JOIN (SELECT * FROM taskqueue.tasks WHERE status = 'running') AS tasks
        USING (task_key) WHERE running.task_key IS NULL OR tasks.task_key IS NULL",
    ),
    (
        "a running task of a limited queue that is not counted, or one of another queue that is",
        "SELECT tasks.task_key, running.queue_key, running.route, tasks.last_route
        FROM taskqueue.running JOIN taskqueue.tasks USING (task_key)
        LEFT JOIN taskqueue.claim_turns ON claim_turns.queue_key = tasks.queue_key
        WHERE (running.queue_key, running.route) IS DISTINCT FROM
            (claim_turns.queue_key, CASE WHEN claim_turns.queue_key IS NOT NULL THEN tasks.last_route END)",
    ),
    (
        "an ended task whose queue keeps it for a limited time, and that is not noted",
        "SELECT tasks.task_key FROM taskqueue.tasks JOIN taskqueue.retention USING (queue_key, status)
        WHERE queue_key NOT IN (SELECT queue_key FROM taskqueue.ended_readings) AND NOT EXISTS (
            SELECT 1 FROM taskqueue.ended WHERE ended.queue_key = tasks.queue_key AND ended.status = tasks.status
            AND ended.ended_at = coalesce(finished_at, updated_at) AND ended.task_key = tasks.task_key
        )",
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
        "a run of a task that is not remembered",
        "SELECT task_key, used.run_id FROM taskqueue.tasks, unnest(ARRAY[run_id, finished_run_id]) AS used (run_id)
        WHERE used.run_id IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM taskqueue.runs WHERE runs.run_id = used.run_id AND runs.task_key = tasks.task_key
        )",
    ),
    (
        "a run that is kept for a deleted task which is there",
        "SELECT * FROM taskqueue.runs WHERE kept_until IS NOT NULL AND task_key IN (SELECT task_key FROM taskqueue.tasks)",
    ),
    (
        "a task that nobody can reach and nobody purges",
        "SELECT * FROM taskqueue.tasks WHERE queue_key NOT IN (SELECT queue_key FROM taskqueue.queues)
        AND queue_key NOT IN (SELECT queue_key FROM taskqueue.purges)",
    ),
    (
        "a task without a definition",
        "SELECT * FROM taskqueue.tasks WHERE task_key NOT IN (SELECT task_key FROM taskqueue.definitions)",
    ),
    (
        "an observation of no queue",
        "SELECT * FROM taskqueue.observations WHERE queue_key NOT IN (SELECT queue_key FROM taskqueue.queues)",
    ),
    (
        "activity of no queue",
        "SELECT * FROM taskqueue.activity WHERE queue_key NOT IN (SELECT queue_key FROM taskqueue.queues)",
    ),
    (
        "a count of no queue",
        "SELECT * FROM taskqueue.tally WHERE queue_key NOT IN (SELECT queue_key FROM taskqueue.queues)",
    ),
    (
        "a row of no task",
        "SELECT task_key FROM (
            SELECT task_key FROM taskqueue.definitions UNION SELECT task_key FROM taskqueue.outcomes
            UNION SELECT task_key FROM taskqueue.runs WHERE kept_until IS NULL
            UNION SELECT task_key FROM taskqueue.outputs
        ) AS parts WHERE task_key NOT IN (SELECT task_key FROM taskqueue.tasks)",
    ),
    (
        "a piece of output that nobody can reach and nobody purges",
        "SELECT task_key FROM taskqueue.output_pieces WHERE task_key NOT IN (SELECT task_key FROM taskqueue.outputs)
        AND task_key NOT IN (SELECT task_key FROM taskqueue.output_purges)",
    ),
    (
        "output of a task that is there and is purged",
        "SELECT task_key FROM taskqueue.output_purges WHERE task_key IN (SELECT task_key FROM taskqueue.tasks)",
    ),
    (
        "a piece of output that overlaps the next one, or is not needed",
        "SELECT task_key, start FROM (
            SELECT task_key, start, start + octet_length(output_pieces.bytes) AS behind,
                lead(start) OVER (PARTITION BY task_key ORDER BY start) AS next,
                split_part(outputs.parts, '-', 1)::bigint AS first_byte, outputs.end_offset
            FROM taskqueue.output_pieces JOIN taskqueue.outputs USING (task_key)
        ) AS pieces WHERE behind > next OR behind <= first_byte OR behind > end_offset",
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
    (
        "a progress whose size is not the one of its task",
        "SELECT task_key, progress_bytes FROM taskqueue.tasks LEFT JOIN taskqueue.outcomes USING (task_key)
        WHERE progress_bytes IS DISTINCT FROM octet_length(progress)",
    ),
];

/// Looks at all tables. Nobody may be writing.
#[track_caller]
pub(crate) fn assert_tables_are_consistent(database: &Database) {
    for (what, sql) in NEVER {
        let rows = database.rows(sql);
        assert!(rows.is_empty(), "{what}: {rows:?}");
    }
}
