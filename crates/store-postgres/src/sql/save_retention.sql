-- Replaces for how many microseconds a queue $1 keeps ended tasks: of the states $2, so long $3. Other states are kept for ever.
WITH forgotten AS (DELETE FROM taskqueue.retention WHERE queue_key = $1 AND status <> ALL($2))
INSERT INTO taskqueue.retention (queue_key, status, kept_micros)
SELECT $1, * FROM unnest($2::text[], $3::bigint[])
ON CONFLICT (queue_key, status) DO UPDATE SET kept_micros = excluded.kept_micros;
