-- Activity, and what workers do.

-- name: SAVE_ACTIVITY
-- Saves what a process has counted in a span, in place of what it saved before. Of a queue that does not exist nothing is saved.
INSERT INTO activity (queue_key, unit, start, process, activity)
SELECT queues.queue_key, ?2, ?3, ?4, ?5 FROM queues WHERE queues.queue_key = ?1
ON CONFLICT (queue_key, unit, start, process) DO UPDATE SET activity = excluded.activity;

-- name: LIST_ACTIVITY
-- Lists what all processes counted of a queue in the spans of a unit that begin between ?3 and ?4, ?4 excluded.
SELECT start, process, activity
FROM activity
WHERE queue_key = ?1 AND unit = ?2 AND start >= ?3 AND start < ?4
ORDER BY start;

-- name: FORGET_ACTIVITY
-- Deletes some rows of a unit whose spans began before ?2.
DELETE FROM activity
WHERE (queue_key, unit, start, process) IN
    (SELECT queue_key, unit, start, process FROM activity WHERE unit = ?1 AND start < ?2 LIMIT ?3);

-- name: DELETE_ACTIVITY
-- Deletes some rows of a deleted queue.
DELETE FROM activity
WHERE (queue_key, unit, start, process) IN
    (SELECT queue_key, unit, start, process FROM activity WHERE queue_key = ?1 LIMIT ?2);

-- name: LOAD_ACTIVITY_SINCE
-- Loads the time from which on activity is known.
SELECT since FROM activity_since WHERE one = 1;

-- name: SAVE_ACTIVITY_SINCE
-- Saves the time from which on activity is known, unless there is one.
INSERT INTO activity_since (one, since) VALUES (1, ?1) ON CONFLICT (one) DO NOTHING;

-- name: LIST_WORKER_STATES
-- Lists what the workers of a queue do for which route, as far as it is current.
SELECT route, status FROM observations WHERE queue_key = ?1 AND expires_at > ?2;
