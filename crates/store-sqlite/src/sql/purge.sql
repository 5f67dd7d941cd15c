-- Deleted queues whose tasks are still to be removed.

-- name: INSERT_PURGE
-- Records a deleted queue, so that its tasks are purged. Their run ids stay used until ?2.
INSERT INTO purges (queue_key, kept_until) VALUES (?1, ?2);

-- name: FIND_PURGE
-- Finds a deleted queue that may still have tasks.
SELECT queue_key, kept_until FROM purges LIMIT 1;

-- name: BOUND_PURGES
-- Shortens the time that deletions of queues recorded for their run ids, after a clock that was wrong.
UPDATE purges SET kept_until = ?1 WHERE kept_until > ?1;

-- name: LIST_PURGEABLE_TASKS
-- Lists some tasks of a deleted queue.
SELECT task_key FROM tasks WHERE queue_key = ?1 LIMIT ?2;

-- name: DELETE_PURGE
-- Ends the purge of a deleted queue that has no tasks left.
DELETE FROM purges WHERE queue_key = ?1;
