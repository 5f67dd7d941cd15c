-- The tasks of a queue whose row was written by a transaction that a snapshot does not see, at most $3 of them. For whoever
-- has the queue alone and has written something. A row knows the last 32 bits of the number of its transaction. Its age tells
-- whether it is older than everything that was open at the snapshot; that is right for every row that was written since, and
-- of very old rows, whose age has become negative, some may be looked at without need; a little negative it is for
-- transactions that began after ours and were first. For the others the whole number is made of it.
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
