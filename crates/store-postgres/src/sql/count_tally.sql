-- Counts the tasks of a queue that have one of the states $2, archived ones (in shards below zero) if $3. No row: no such queue.
SELECT coalesce(sum(tally.tasks), 0)::bigint AS tasks
FROM taskqueue.queues
LEFT JOIN taskqueue.tally
    ON tally.queue_key = queues.queue_key AND tally.status = ANY($2) AND ($3 OR tally.shard >= 0)
WHERE queues.name = $1
GROUP BY queues.queue_key;
