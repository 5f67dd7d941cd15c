-- Observations of workers.

-- name: LOAD_OBSERVATIONS
-- Loads the observations of workers, expired or not.
SELECT {observation_columns}, observations.queue_key
FROM unnest($1::text[], $2::text[]) AS named (queue, id)
JOIN taskqueue.queues ON queues.name = named.queue
JOIN taskqueue.observations ON observations.queue_key = queues.queue_key AND observations.id = named.id;

-- name: LOCK_OBSERVATIONS
-- Locks the observations of workers in this order, those that exist. Several statements of a transaction change observations, each in
-- the order of the keys; two transactions that change the same workers by different statements would otherwise wait for each other.
SELECT 1
FROM unnest($1::bigint[], $2::text[]) AS named (queue_key, id)
CROSS JOIN LATERAL (
    SELECT 1
    FROM taskqueue.observations
    WHERE observations.queue_key = named.queue_key AND observations.id = named.id
    FOR UPDATE
) AS locked;

-- name: SAVE_OBSERVATIONS
-- Adds or replaces observations. The route of a current observation cannot change. If another server has reported the worker
-- for another route since, the route becomes null, which is refused; the batch is then begun again and sees it. A current
-- observation keeps its telemetry if that is newer: it may have come to another server.
INSERT INTO taskqueue.observations AS kept (
    queue_key, id, route, status, task_id, last_seen_at, expires_at, metadata, telemetry, telemetry_updated_at
)
SELECT * FROM unnest(
    $1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::text[], $9::text[],
    $10::bigint[]
)
ON CONFLICT (queue_key, id) DO UPDATE SET
    route = CASE
        WHEN kept.route = excluded.route OR kept.expires_at <= excluded.last_seen_at THEN excluded.route
    END,
    status = excluded.status, task_id = excluded.task_id,
    last_seen_at = excluded.last_seen_at, expires_at = excluded.expires_at, metadata = excluded.metadata,
    telemetry = CASE
        WHEN kept.expires_at > excluded.last_seen_at
            AND kept.telemetry_updated_at >= coalesce(excluded.telemetry_updated_at, kept.telemetry_updated_at)
        THEN kept.telemetry
        ELSE excluded.telemetry
    END,
    telemetry_updated_at = CASE
        WHEN kept.expires_at > excluded.last_seen_at
            AND kept.telemetry_updated_at >= coalesce(excluded.telemetry_updated_at, kept.telemetry_updated_at)
        THEN kept.telemetry_updated_at
        ELSE excluded.telemetry_updated_at
    END;

-- name: SAVE_TELEMETRY
-- Saves what workers measured. Nothing else of their observations changes: another server may have reported them since.
UPDATE taskqueue.observations SET telemetry = saved.telemetry, telemetry_updated_at = saved.telemetry_updated_at
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) AS saved (queue_key, id, telemetry, telemetry_updated_at)
WHERE observations.queue_key = saved.queue_key AND observations.id = saved.id;

-- name: DELETE_OBSERVATIONS
-- Deletes observations of workers.
DELETE FROM taskqueue.observations
USING unnest($1::bigint[], $2::text[]) AS gone (queue_key, id)
WHERE observations.queue_key = gone.queue_key AND observations.id = gone.id;

-- name: DELETE_EXPIRED_OBSERVATIONS
-- Deletes expired observations. Scans the table: it has one row for each live worker, and this runs once in five seconds.
-- An observation that a report holds is about to be renewed.
DELETE FROM taskqueue.observations
WHERE (queue_key, id) IN (
    SELECT queue_key, id FROM taskqueue.observations WHERE expires_at <= $1::bigint FOR UPDATE SKIP LOCKED
);

-- name: LIST_OBSERVATIONS
-- Lists the current observations of a queue after the id $3, which is empty for the first page.
SELECT {observation_columns}
FROM taskqueue.observations
WHERE queue_key = $1::bigint AND expires_at > $2::bigint AND id > $3::text
ORDER BY id
LIMIT $4::bigint;
