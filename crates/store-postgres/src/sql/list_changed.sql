-- Lists tasks of a queue whose row was written by a transaction that a snapshot does not see, at most $3. The caller holds
-- the queue for itself and has written something.
-- A row stores the last 32 bits of the number of its transaction. Its age tells whether it is older than everything that
-- was open at the snapshot. That is right for every row written since. The age of very old rows may have become negative;
-- some of them are listed without need. It is slightly negative for transactions that began after ours and committed
-- first. For all other rows the whole number is computed from the age.
WITH known AS MATERIALIZED (
    SELECT $2::text::pg_snapshot AS snapshot, pg_current_xact_id()::text::bigint AS newest
)
SELECT task_key
FROM taskqueue.tasks
WHERE queue_key = $1 AND CASE
    WHEN age(xmin) > (SELECT age(pg_snapshot_xmin(snapshot)::xid) FROM known) THEN false
    WHEN age(xmin) < -10000000 THEN false
    ELSE NOT pg_visible_in_snapshot(
        ((SELECT newest FROM known) - age(xmin))::text::xid8, (SELECT snapshot FROM known)
    )
END
LIMIT $3;
