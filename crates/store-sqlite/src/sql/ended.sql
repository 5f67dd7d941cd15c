-- Tasks that have ended in queues which keep them for a limited time.

-- name: INSERT_ENDED
-- Notes that a task has ended.
INSERT INTO ended (queue_key, status, ended_at, task_key) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (queue_key, status, ended_at, task_key) DO NOTHING;

-- name: LIST_ENDED
-- Lists tasks of a queue that ended in a state, up to a time, the earliest first.
SELECT ended_at, task_key FROM ended
WHERE queue_key = ?1 AND status = ?2 AND ended_at <= ?3
ORDER BY ended_at, task_key
LIMIT ?4;

-- name: FIND_FIRST_ENDED
-- Finds the task of a queue that ended first in a state.
SELECT ended_at, task_key FROM ended WHERE queue_key = ?1 AND status = ?2 ORDER BY ended_at, task_key LIMIT 1;

-- name: FIND_NEXT_ENDED
-- Finds the first ended task of the next queue and state for which any is noted.
SELECT queue_key, status, ended_at FROM ended
WHERE (queue_key, status) > (?1, ?2)
ORDER BY queue_key, status, ended_at
LIMIT 1;

-- name: HAS_ENDED
-- Whether it is noted that a task has ended then.
SELECT 1 FROM ended WHERE queue_key = ?1 AND status = ?2 AND ended_at = ?3 AND task_key = ?4;

-- name: DELETE_ENDED
-- Forgets that a task has ended.
DELETE FROM ended WHERE queue_key = ?1 AND status = ?2 AND ended_at = ?3 AND task_key = ?4;

-- name: DELETE_FIRST_ENDED
-- Forgets the tasks that ended first in a state, up to one of them.
DELETE FROM ended WHERE queue_key = ?1 AND status = ?2 AND (ended_at, task_key) <= (?3, ?4);

-- name: LOAD_ENDED_READ
-- Loads how far the tasks of a queue were read.
SELECT after_created_at, after_id FROM ended_reads WHERE queue_key = ?1;

-- name: LOAD_ENDED_READS
-- Loads the queues whose tasks are being read because they got a retention.
SELECT queue_key FROM ended_reads;

-- name: SAVE_ENDED_READ
-- Saves how far the tasks of a queue were read.
INSERT INTO ended_reads (queue_key, after_created_at, after_id) VALUES (?1, ?2, ?3)
ON CONFLICT (queue_key) DO UPDATE SET after_created_at = excluded.after_created_at, after_id = excluded.after_id;

-- name: DELETE_ENDED_READ
-- All tasks of a queue were read, or it was deleted.
DELETE FROM ended_reads WHERE queue_key = ?1;
