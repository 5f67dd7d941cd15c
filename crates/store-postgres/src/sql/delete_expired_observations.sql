-- Deletes expired observations. Scans the table: it has one row for each live worker, and this runs once in five seconds.
-- An observation that a report holds is about to be renewed.
DELETE FROM taskqueue.observations
WHERE (queue_key, id) IN (
    SELECT queue_key, id FROM taskqueue.observations WHERE expires_at <= $1 FOR UPDATE SKIP LOCKED
);
