-- The claim index in the file: how far it was written, which tasks may be living, and when leases were scanned.

-- name: LOAD_CLAIM_INDEX
-- Loads what the claim index needs of the tasks with these keys.
SELECT {claim_index_columns}
FROM tasks
WHERE tasks.task_key BETWEEN ?1 AND ?2
ORDER BY tasks.task_key;

-- name: FIND_LAST_KEY
-- Finds the key of the task that was created last.
SELECT coalesce(max(task_key), 0) FROM tasks;

-- name: LOAD_MARKS
-- Loads how far the claim index was written to the file.
SELECT last_key, flushed_at, latest_at FROM claim_index;

-- name: SAVE_MARKS
-- Saves how far the claim index was written to the file.
UPDATE claim_index SET last_key = ?1, flushed_at = ?2, latest_at = max(latest_at, ?3);

-- name: TOUCH_MARKS
-- Records the time of a change that a start would not find otherwise.
UPDATE claim_index SET latest_at = max(latest_at, ?1);

-- name: RESET_MARKS
-- Sets the times again, after a clock that was wrong: ?1 is the latest time of any task, ?2 is now.
UPDATE claim_index SET latest_at = ?1, flushed_at = min(flushed_at, ?2);

-- name: CLEAR_MARKS
-- Lets the next start read all tasks.
UPDATE claim_index SET last_key = 0, flushed_at = 0, latest_at = 0;

-- name: LOAD_LIVING_TASKS
-- Loads which tasks may be pending or running.
SELECT chunk, keys FROM living_tasks ORDER BY chunk;

-- name: FIND_LIVING_TASKS
-- Finds which tasks of a chunk may be pending or running.
SELECT keys FROM living_tasks WHERE chunk = ?1;

-- name: SAVE_LIVING_TASKS
-- Saves which tasks of a chunk may be pending or running.
INSERT INTO living_tasks (chunk, keys) VALUES (?1, ?2) ON CONFLICT (chunk) DO UPDATE SET keys = excluded.keys;

-- name: DELETE_LIVING_TASKS
-- Deletes a chunk in which no task is pending or running.
DELETE FROM living_tasks WHERE chunk = ?1;

-- name: CLEAR_LIVING_TASKS
-- Deletes all chunks.
DELETE FROM living_tasks;

-- name: LOAD_SCAN
-- Loads the time of the last lease scan.
SELECT last_at FROM lease_scans;

-- name: SAVE_SCAN
-- Saves the time of the last lease scan.
INSERT INTO lease_scans (one, last_at) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET last_at = excluded.last_at;
