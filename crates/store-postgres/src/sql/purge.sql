-- Background removal of what deleted queues and tasks leave behind.

-- name: LOCK_PURGE
-- Finds a deleted queue to purge, and until when the run ids of its tasks stay used.
SELECT queue_key, kept_until FROM taskqueue.purges LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: PURGE_READY
-- Removes some rows of a deleted queue from the pending order.
DELETE FROM taskqueue.ready
WHERE ctid = ANY (ARRAY(SELECT ctid FROM taskqueue.ready WHERE queue_key = $1::bigint LIMIT $2::bigint));

-- name: PURGE_DELAYED
-- Removes some delayed tasks of a deleted queue, except those that another transaction moves to the pending order. Those have their
-- turn with their tasks, which it holds.
DELETE FROM taskqueue.delayed
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM taskqueue.delayed WHERE queue_key = $1::bigint LIMIT $2::bigint FOR UPDATE SKIP LOCKED
));

-- name: PURGE_DEPENDENCIES
-- Removes some of what is noted of the dependencies of a deleted queue.
DELETE FROM taskqueue.dependencies
WHERE ctid = ANY (ARRAY(SELECT ctid FROM taskqueue.dependencies WHERE queue_key = $1::bigint LIMIT $2::bigint));

-- name: PURGE_ENDED
-- Removes some notes of ended tasks of a deleted queue.
DELETE FROM taskqueue.ended
WHERE ctid = ANY (ARRAY(SELECT ctid FROM taskqueue.ended WHERE queue_key = $1::bigint LIMIT $2::bigint));

-- name: PURGE_TASKS
-- Deletes some tasks of a deleted queue. Their run ids stay used until $3, and the pieces of their output are purged later.
WITH
    doomed AS (SELECT task_key FROM taskqueue.tasks WHERE queue_key = $1::bigint LIMIT $2::bigint),
    kept_runs AS (UPDATE taskqueue.runs SET kept_until = $3::bigint WHERE task_key IN (SELECT task_key FROM doomed)),
    deleted_unsuccessful AS (
        DELETE FROM taskqueue.unsuccessful WHERE task_key IN (SELECT task_key FROM doomed)
    ),
    deleted_outcomes AS (DELETE FROM taskqueue.outcomes WHERE task_key IN (SELECT task_key FROM doomed)),
    deleted_definitions AS (DELETE FROM taskqueue.definitions WHERE task_key IN (SELECT task_key FROM doomed)),
    deleted_outputs AS (
        DELETE FROM taskqueue.outputs WHERE task_key IN (SELECT task_key FROM doomed) RETURNING task_key
    ),
    noted AS (INSERT INTO taskqueue.output_purges (task_key) SELECT task_key FROM deleted_outputs)
DELETE FROM taskqueue.tasks WHERE task_key IN (SELECT task_key FROM doomed);

-- name: DELETE_PURGE
-- Ends the purge of a deleted queue that has no tasks left.
DELETE FROM taskqueue.purges WHERE queue_key = $1::bigint;

-- name: LOCK_OUTPUT_PURGES
-- Finds deleted tasks whose pieces of output are to be purged.
SELECT task_key FROM taskqueue.output_purges LIMIT $1::bigint FOR UPDATE SKIP LOCKED;

-- name: PURGE_OUTPUT
-- Removes some pieces of the output of deleted tasks.
DELETE FROM taskqueue.output_pieces
WHERE ctid = ANY (ARRAY(SELECT ctid FROM taskqueue.output_pieces WHERE task_key = ANY($1::bigint[]) LIMIT $2::bigint));

-- name: DELETE_OUTPUT_PURGES
-- Ends the purge of the output of deleted tasks that have no pieces left.
DELETE FROM taskqueue.output_purges WHERE task_key = ANY($1::bigint[]);
