-- Lists the ended tasks of some queues and states that ended at a time or before, the earliest of each first, at most $4.
SELECT ended.queue_key, ended.status, ended.ended_at, ended.task_key
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS kept (queue_key, status, until)
CROSS JOIN LATERAL (
    SELECT * FROM taskqueue.ended
    WHERE ended.queue_key = kept.queue_key AND ended.status = kept.status AND ended.ended_at <= kept.until
    ORDER BY ended.ended_at
    LIMIT $4
) AS ended
LIMIT $4;
