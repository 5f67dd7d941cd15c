-- Tasks that have ended: without success, or in queues that keep them for a limited time.

-- name: INSERT_UNSUCCESSFUL
-- Adds tasks to those that ended without success. A row that should not be there stops nobody: the list makes reads quick, and what
-- they give does not depend on it.
INSERT INTO taskqueue.unsuccessful (task_key, queue_key, status)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])
ON CONFLICT (task_key) DO UPDATE SET queue_key = excluded.queue_key, status = excluded.status;

-- name: DELETE_UNSUCCESSFUL
-- Removes tasks from those that ended without success.
DELETE FROM taskqueue.unsuccessful WHERE task_key = ANY($1::bigint[]);

-- name: INSERT_ENDED
-- Notes tasks that have ended, and that their queue keeps for a limited time.
INSERT INTO taskqueue.ended (queue_key, status, ended_at, task_key)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[])
ON CONFLICT DO NOTHING;

-- name: DELETE_ENDED
-- Removes notes of ended tasks.
DELETE FROM taskqueue.ended
USING unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) AS noted (queue_key, status, ended_at, task_key)
WHERE ended.queue_key = noted.queue_key AND ended.status = noted.status AND ended.ended_at = noted.ended_at
    AND ended.task_key = noted.task_key;

-- name: LOCK_ENDED
-- Locks tasks by their keys, except those that other transactions hold, and loads them without their JSON.
SELECT {head_columns}
FROM taskqueue.tasks
WHERE tasks.task_key = ANY($1::bigint[])
ORDER BY tasks.task_key
FOR UPDATE SKIP LOCKED;

-- name: SAVE_RETENTION
-- Replaces for how many microseconds a queue $1 keeps ended tasks: of the states $2, so long $3. Other states are kept for ever.
WITH forgotten AS (DELETE FROM taskqueue.retention WHERE queue_key = $1::bigint AND status <> ALL($2))
INSERT INTO taskqueue.retention (queue_key, status, kept_micros)
SELECT $1, * FROM unnest($2::text[], $3::bigint[])
ON CONFLICT (queue_key, status) DO UPDATE SET kept_micros = excluded.kept_micros;

-- name: LIST_RETENTION
-- Lists which states some queues keep for a limited time, and for how long: the next $2 queues behind $1.
SELECT retention.queue_key, retention.status, retention.kept_micros
FROM (
    SELECT DISTINCT queue_key FROM taskqueue.retention WHERE queue_key > $1::bigint ORDER BY queue_key LIMIT $2::bigint
) AS queues
JOIN taskqueue.retention ON retention.queue_key = queues.queue_key
ORDER BY retention.queue_key, retention.status;

-- name: LIST_OUTDATED
-- Lists the ended tasks of some queues and states that ended at a time or before, the earliest of each first, at most $4.
SELECT ended.queue_key, ended.status, ended.ended_at, ended.task_key
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS kept (queue_key, status, until)
CROSS JOIN LATERAL (
    SELECT * FROM taskqueue.ended
    WHERE ended.queue_key = kept.queue_key AND ended.status = kept.status AND ended.ended_at <= kept.until
    ORDER BY ended.ended_at
    LIMIT $4::bigint
) AS ended
LIMIT $4;

-- name: BEGIN_ENDED_READING
-- Lets the tasks of a queue be read from the first on, to note those that have ended.
INSERT INTO taskqueue.ended_readings (queue_key, after_id) VALUES ($1::bigint, '')
ON CONFLICT (queue_key) DO UPDATE SET after_id = '';

-- name: LOCK_ENDED_READING
-- Finds a queue whose tasks are being read, and behind which one to go on.
SELECT queue_key, after_id FROM taskqueue.ended_readings ORDER BY queue_key LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: READ_ENDED
-- Reads the next $3 tasks of a queue $1 in the order of their ids, behind $2, without their JSON.
SELECT {head_columns}
FROM taskqueue.tasks
WHERE tasks.queue_key = $1::bigint AND tasks.id > $2::text
ORDER BY tasks.id
LIMIT $3::bigint;

-- name: SAVE_ENDED_READING
-- Notes how far the tasks of a queue $1 were read: up to $2.
UPDATE taskqueue.ended_readings SET after_id = $2::text WHERE queue_key = $1::bigint;

-- name: DELETE_ENDED_READING
-- Ends the reading of the tasks of a queue.
DELETE FROM taskqueue.ended_readings WHERE queue_key = $1::bigint;
