-- Observations of workers.

-- name: LOAD_OBSERVATION
-- Loads the observation of a worker, expired or not.
SELECT {observation_columns} FROM observations WHERE queue_key = ?1 AND id = ?2;

-- name: LIST_OBSERVATIONS
-- Lists the current observations of a queue after the id ?3, which is empty for the first page.
SELECT {observation_columns}
FROM observations
WHERE queue_key = ?1 AND expires_at > ?2 AND id > ?3
ORDER BY id;

-- name: SAVE_OBSERVATION
-- Adds or replaces the observation of a worker.
INSERT INTO observations
    (queue_key, id, route, status, task_id, last_seen_at, expires_at, metadata, telemetry, telemetry_updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (queue_key, id) DO UPDATE SET
    route = excluded.route, status = excluded.status, task_id = excluded.task_id,
    last_seen_at = excluded.last_seen_at, expires_at = excluded.expires_at, metadata = excluded.metadata,
    telemetry = excluded.telemetry, telemetry_updated_at = excluded.telemetry_updated_at;

-- name: DELETE_OBSERVATION
-- Deletes the observation of a worker.
DELETE FROM observations WHERE queue_key = ?1 AND id = ?2;

-- name: DELETE_OBSERVATIONS
-- Deletes all observations of a deleted queue.
DELETE FROM observations WHERE queue_key = ?1;

-- name: DELETE_EXPIRED_OBSERVATIONS
-- Deletes expired observations. Scans the table: it has one row for each live worker, and this runs once in five seconds.
DELETE FROM observations WHERE expires_at <= ?1;

-- name: DELETE_LATE_OBSERVATIONS
-- Deletes observations that were made later than now, after a clock that was wrong.
DELETE FROM observations WHERE last_seen_at > ?1;
