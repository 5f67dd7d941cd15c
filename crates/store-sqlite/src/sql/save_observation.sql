-- Adds or replaces the observation of a worker.
INSERT INTO observations
    (queue_key, id, route, status, task_id, last_seen_at, expires_at, metadata, telemetry, telemetry_updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (queue_key, id) DO UPDATE SET
    route = excluded.route, status = excluded.status, task_id = excluded.task_id,
    last_seen_at = excluded.last_seen_at, expires_at = excluded.expires_at, metadata = excluded.metadata,
    telemetry = excluded.telemetry, telemetry_updated_at = excluded.telemetry_updated_at;
