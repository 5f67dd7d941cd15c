-- Moves delayed tasks of all queues whose time has come by $1 to the pending order, at most $2, except those that other transactions
-- hold. Like move_due.sql.
WITH
    due AS MATERIALIZED (
        SELECT
            delayed.queue_key, delayed.not_before, delayed.task_key, tasks.priority, tasks.pending_seq, tasks.routes,
            tasks.status = 'pending' AND tasks.unmet IS NULL
            AND tasks.not_before IS NOT DISTINCT FROM delayed.not_before AS is_true
        FROM taskqueue.delayed
        JOIN taskqueue.tasks ON tasks.task_key = delayed.task_key
        WHERE delayed.not_before <= $1
        ORDER BY delayed.not_before
        LIMIT $2
        FOR UPDATE OF tasks SKIP LOCKED
    ),
    moved AS (
        DELETE FROM taskqueue.delayed USING due
        WHERE delayed.queue_key = due.queue_key AND delayed.not_before = due.not_before
            AND delayed.task_key = due.task_key
        RETURNING due.queue_key, due.priority, due.pending_seq, due.task_key, due.routes, due.is_true
    ),
    added AS (
        INSERT INTO taskqueue.ready (queue_key, priority, pending_seq, task_key, route)
        SELECT queue_key, priority, pending_seq, task_key, unnest(string_to_array(btrim(routes, '[]"'), '","'))
        FROM moved
        WHERE is_true
    )
SELECT count(*) AS tasks FROM moved;
