-- Counts of tasks by routes and status, and the activity of queues.

-- name: ADD_TALLY
-- Adds differences to the counts of tasks by routes and status, in these shards.
INSERT INTO taskqueue.tally AS kept (queue_key, routes, status, tasks, shard)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::smallint[])
ON CONFLICT (queue_key, digest, status, shard) DO UPDATE SET tasks = kept.tasks + excluded.tasks;

-- name: MERGE_TALLY
-- Removes the counts whose shards add up to zero. Rows that another transaction is writing stay. What has been added in the
-- meantime is returned, to be added again. The queues are held until then: who deletes one removes its counts, and does not see
-- those that are added meanwhile.
WITH
    settled AS (
        SELECT queue_key, routes, status, shard < 0 AS archived
        FROM taskqueue.tally
        GROUP BY queue_key, routes, status, shard < 0
        HAVING sum(tasks) = 0
    ),
    held AS (
        SELECT tally.queue_key, tally.digest, tally.status, tally.shard
        FROM taskqueue.tally
        JOIN settled USING (queue_key, routes, status)
        JOIN taskqueue.queues USING (queue_key)
        WHERE (tally.shard < 0) = settled.archived
        FOR KEY SHARE OF queues SKIP LOCKED
        FOR UPDATE OF tally SKIP LOCKED
    ),
    removed AS (
        DELETE FROM taskqueue.tally USING held
        WHERE tally.queue_key = held.queue_key AND tally.digest = held.digest AND tally.status = held.status
            AND tally.shard = held.shard
        RETURNING tally.queue_key, tally.routes, tally.status, tally.tasks, tally.shard < 0 AS archived
    )
SELECT queue_key, routes, status, sum(tasks)::bigint, archived
FROM removed
GROUP BY queue_key, routes, status, archived
HAVING sum(tasks) <> 0;

-- name: TALLY_QUEUE
-- Counts the tasks of a queue, and the running ones among them.
SELECT
    coalesce(sum(tasks), 0)::bigint AS tasks,
    coalesce(sum(tasks) FILTER (WHERE status = 'running'), 0)::bigint AS running
FROM taskqueue.tally
WHERE queue_key = $1::bigint;

-- name: LIST_TALLY
-- Lists the counts of a queue, summed over the shards; those of the states $2, archived ones (in shards below
-- zero) if $3. No row: no such queue; one row without routes: no task.
SELECT queues.queue_key, tally.routes, tally.status, coalesce(sum(tally.tasks), 0)::bigint AS tasks
FROM taskqueue.queues
LEFT JOIN taskqueue.tally
    ON tally.queue_key = queues.queue_key AND tally.status = ANY($2::text[]) AND ($3::boolean OR tally.shard >= 0)
WHERE queues.name = $1::text
GROUP BY queues.queue_key, tally.routes, tally.status;

-- name: COUNT_TALLY
-- Counts the tasks of a queue that have one of the states $2, archived ones (in shards below zero) if $3. No row: no such queue.
SELECT coalesce(sum(tally.tasks), 0)::bigint AS tasks
FROM taskqueue.queues
LEFT JOIN taskqueue.tally
    ON tally.queue_key = queues.queue_key AND tally.status = ANY($2::text[]) AND ($3::boolean OR tally.shard >= 0)
WHERE queues.name = $1::text
GROUP BY queues.queue_key;

-- name: COUNT_STATUSES
-- Counts the tasks of a queue for each state, archived ones too.
SELECT tally.status, sum(tally.tasks)::bigint AS tasks
FROM taskqueue.tally
WHERE tally.queue_key = $1::bigint
GROUP BY tally.status;

-- name: HAS_MANY_ARCHIVED
-- Whether a queue has more than $2 archived tasks. They are counted in shards below zero.
SELECT coalesce(sum(tally.tasks), 0) > $2::bigint
FROM taskqueue.queues
JOIN taskqueue.tally ON tally.queue_key = queues.queue_key AND tally.shard < 0
WHERE queues.name = $1::text;

-- name: SAVE_ACTIVITY
-- Saves what the process $4 has counted, in place of what it saved before. Holds the queues against deletion. Leaves out those
-- that do not exist, and those that another transaction holds for itself: the rows say which were saved. Each queue is tried once,
-- so that all of its rows are saved or none.
WITH held AS MATERIALIZED (
    SELECT queue_key FROM taskqueue.queues WHERE queue_key = ANY ($1::bigint[]) FOR KEY SHARE SKIP LOCKED
)
INSERT INTO taskqueue.activity (queue_key, unit_seconds, start_at, process, counted)
SELECT counted.queue_key, counted.unit_seconds, counted.start_at, $4::bigint, counted.bytes
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $5::bytea[]) AS counted (queue_key, unit_seconds, start_at, bytes)
JOIN held ON held.queue_key = counted.queue_key
ON CONFLICT (queue_key, unit_seconds, start_at, process) DO UPDATE SET counted = excluded.counted
RETURNING queue_key;

-- name: SAVE_ACTIVITY_SINCE
-- Saves the time from which on activity is known, unless there is one: $1, or the time of the service (table `clock`).
INSERT INTO taskqueue.activity_since (one, since)
SELECT
    1,
    coalesce($1::bigint, greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + offset_micros, last_scan_at))
FROM taskqueue.clock
WHERE one = 1
ON CONFLICT (one) DO NOTHING;

-- name: LOAD_ACTIVITY_SINCE
-- Loads the time of the service (table `clock`), and since when activity is counted.
SELECT
    greatest(
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + clock.offset_micros, clock.last_scan_at
    ) AS now,
    activity_since.since
FROM taskqueue.clock
CROSS JOIN taskqueue.activity_since;

-- name: LIST_ACTIVITY
-- Lists what all processes have saved of a queue, for spans of one unit that begin from $3 on and before $4.
SELECT start_at, process, counted
FROM taskqueue.activity
WHERE queue_key = $1::bigint AND unit_seconds = $2::bigint AND start_at >= $3::bigint AND start_at < $4::bigint;

-- name: FORGET_ACTIVITY
-- Forgets the first rows whose time began before $2, except those that another transaction holds: several servers may do this at
-- once.
DELETE FROM taskqueue.activity
WHERE ctid = ANY (ARRAY(
    SELECT ctid
    FROM taskqueue.activity
    WHERE unit_seconds = $1::bigint AND start_at < $2::bigint
    ORDER BY unit_seconds, start_at
    LIMIT $3::bigint
    FOR UPDATE SKIP LOCKED
));
