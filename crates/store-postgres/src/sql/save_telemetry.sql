-- Saves what workers measured. Nothing else of their observations changes: another server may have reported them since.
UPDATE taskqueue.observations SET telemetry = saved.telemetry, telemetry_updated_at = saved.telemetry_updated_at
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) AS saved (queue_key, id, telemetry, telemetry_updated_at)
WHERE observations.queue_key = saved.queue_key AND observations.id = saved.id;
