-- Moves delayed tasks of the queues $1 whose time has come to the pending order, except those that other transactions hold, and says
-- whether there were such. At most 1000 of each queue: the rest is moved by the next claims. Without $2 the time is that of the
-- service (table `clock`). A task may have been changed after it was found and before it was held, so it is looked at again; a row
-- that is not true of its task any more is removed.
WITH
    found AS MATERIALIZED (
        SELECT found.*
        FROM taskqueue.queues
        CROSS JOIN LATERAL (
            SELECT delayed.queue_key, delayed.not_before, delayed.task_key
            FROM taskqueue.delayed
            -- A range and an order, which only the primary key can serve. By the index of all queues it would read what is due in
            -- others.
            WHERE delayed.queue_key >= queues.queue_key
                AND (delayed.queue_key, delayed.not_before) <= (queues.queue_key, coalesce($2, (
                    SELECT
                        greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + offset_micros, last_scan_at)
                    FROM taskqueue.clock
                    WHERE one = 1
                )))
            ORDER BY delayed.queue_key, delayed.not_before
            LIMIT 1000
        ) AS found
        WHERE queues.name = ANY($1)
    ),
    due AS MATERIALIZED (
        SELECT
            found.*, tasks.priority, tasks.pending_seq, tasks.routes,
            tasks.status = 'pending' AND tasks.unmet IS NULL
            AND tasks.not_before IS NOT DISTINCT FROM found.not_before AS is_true
        FROM found
        JOIN taskqueue.tasks ON tasks.task_key = found.task_key
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
SELECT count(*) AS tasks, (SELECT count(*) FROM found) > (SELECT count(*) FROM due) AS some_held FROM moved;
