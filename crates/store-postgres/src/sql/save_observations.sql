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
