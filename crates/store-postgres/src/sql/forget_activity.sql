-- Forgets the first rows whose time began before $2, except those that another transaction holds: several servers may do this at
-- once.
DELETE FROM taskqueue.activity
WHERE ctid = ANY (ARRAY(
    SELECT ctid
    FROM taskqueue.activity
    WHERE unit_seconds = $1 AND start_at < $2
    ORDER BY unit_seconds, start_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
));
