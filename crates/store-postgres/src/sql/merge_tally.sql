-- Removes the counts whose shards add up to zero. Rows that another transaction is writing stay. What has been added in the
-- meantime is returned, to be added again.
WITH
    settled AS (
        SELECT queue_key, routes, status, shard < 0 AS archived
        FROM taskqueue.tally
        GROUP BY queue_key, routes, status, shard < 0
        HAVING sum(tasks) = 0
    ),
    held AS (
        SELECT tally.queue_key, tally.digest, tally.status, tally.shard
        FROM taskqueue.tally
        JOIN settled USING (queue_key, routes, status)
        WHERE (tally.shard < 0) = settled.archived
        FOR UPDATE OF tally SKIP LOCKED
    ),
    removed AS (
        DELETE FROM taskqueue.tally USING held
        WHERE tally.queue_key = held.queue_key AND tally.digest = held.digest AND tally.status = held.status
            AND tally.shard = held.shard
        RETURNING tally.queue_key, tally.routes, tally.status, tally.tasks, tally.shard < 0 AS archived
    )
SELECT queue_key, routes, status, sum(tasks)::bigint, archived
FROM removed
GROUP BY queue_key, routes, status, archived
HAVING sum(tasks) <> 0;
