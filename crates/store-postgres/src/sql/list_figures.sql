-- Sums the counts of the queue $1, or of every queue if that is null, by routes and status, over the shards. Archived tasks, in shards
-- below zero, are left out. A queue without tasks has one row without routes.
SELECT queues.queue_key, queues.name, counted.routes, counted.status, coalesce(counted.tasks, 0) AS tasks
FROM taskqueue.queues
LEFT JOIN (
    SELECT tally.queue_key, tally.routes, tally.status, sum(tally.tasks)::bigint AS tasks
    FROM taskqueue.tally
    WHERE ($1::bigint IS NULL OR tally.queue_key = $1) AND tally.shard >= 0
    GROUP BY tally.queue_key, tally.routes, tally.status
) AS counted ON counted.queue_key = queues.queue_key
WHERE $1::bigint IS NULL OR queues.queue_key = $1;
