-- Counts the tasks of the queues $1 by status, over the shards. Archived tasks, in shards below zero, are left out. A queue without
-- tasks has one row without a status.
SELECT queues.queue_key, counted.status, coalesce(counted.tasks, 0) AS tasks
FROM taskqueue.queues
LEFT JOIN (
    SELECT tally.queue_key, tally.status, sum(tally.tasks)::bigint AS tasks
    FROM taskqueue.tally
    WHERE tally.queue_key = ANY($1) AND tally.shard >= 0
    GROUP BY tally.queue_key, tally.status
) AS counted ON counted.queue_key = queues.queue_key
WHERE queues.queue_key = ANY($1);
