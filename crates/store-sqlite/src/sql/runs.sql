-- Run ids that were used: those of tasks, those of deleted tasks, and all of them in sorted segments.

-- name: INSERT_PAST_RUN
-- Records a run of a task that is no longer its last finished one.
INSERT INTO past_runs (task_key, run_id) VALUES (?1, ?2);

-- name: LIST_PAST_RUNS
-- Lists the past run ids of a task.
SELECT run_id FROM past_runs WHERE task_key = ?1;

-- name: LOAD_PAST_RUNS
-- Loads the past run ids of the tasks with these keys, task by task.
SELECT task_key, run_id FROM past_runs WHERE task_key BETWEEN ?1 AND ?2 ORDER BY task_key;

-- name: DELETE_PAST_RUNS
-- Deletes the past runs of a deleted task. Its run ids go to deleted_runs.
DELETE FROM past_runs WHERE task_key = ?1;

-- name: INSERT_DELETED_RUN
-- Records a run id of a deleted task, which stays used until ?1.
INSERT INTO deleted_runs (kept_until, run_id) VALUES (?1, ?2);

-- name: LOAD_DELETED_RUNS
-- Loads the run ids of tasks that were deleted lately.
SELECT run_id FROM deleted_runs WHERE kept_until >= ?1;

-- name: BOUND_DELETED_RUNS
-- Shortens the time for which run ids of deleted tasks stay used, after a clock that was wrong.
UPDATE deleted_runs SET kept_until = ?1 WHERE kept_until > ?1;

-- name: LIST_FORGETTABLE_RUNS
-- Lists the first run ids of deleted tasks whose time is over, behind one of them.
SELECT run_id, kept_until
FROM deleted_runs
WHERE kept_until <= ?1 AND (kept_until, run_id) > (?2, ?3)
ORDER BY kept_until, run_id
LIMIT ?4;

-- name: DELETE_FORGETTABLE_RUNS
-- Forgets run ids of deleted tasks, up to this one and including it.
DELETE FROM deleted_runs WHERE (kept_until, run_id) <= (?1, ?2);

-- name: LOAD_RUN_SEGMENTS
-- Loads the segments of used run ids, in the order of their age.
SELECT segment, oldest, newest, state, pages, entries FROM run_segments ORDER BY newest, segment;

-- name: SAVE_RUN_SEGMENT
-- Adds a segment, or saves what has become of it.
INSERT INTO run_segments (segment, oldest, newest, state, pages, entries) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (segment) DO UPDATE SET state = excluded.state, pages = excluded.pages, entries = excluded.entries;

-- name: DELETE_RUN_SEGMENT
-- Deletes a segment whose pages are gone.
DELETE FROM run_segments WHERE segment = ?1;

-- name: CLEAR_RUN_SEGMENTS
-- Deletes all segments.
DELETE FROM run_segments;

-- name: INSERT_RUN_PAGE
-- Adds a page of used run ids.
INSERT INTO run_pages (page, entries) VALUES (?1, ?2);

-- name: FIND_RUN_PAGE
-- Finds a page of used run ids.
SELECT entries FROM run_pages WHERE page = ?1;

-- name: FIND_LAST_RUN_PAGE
-- Finds the last page of a segment.
SELECT page, entries FROM run_pages WHERE page BETWEEN ?1 AND ?2 ORDER BY page DESC LIMIT 1;

-- name: LIST_RUN_PAGES
-- Lists pages of a segment.
SELECT page, entries FROM run_pages WHERE page BETWEEN ?1 AND ?2 ORDER BY page;

-- name: DELETE_RUN_PAGES
-- Deletes pages of a segment that was merged into another one.
DELETE FROM run_pages WHERE page BETWEEN ?1 AND ?2;

-- name: CLEAR_RUN_PAGES
-- Deletes all pages of used run ids.
DELETE FROM run_pages;
