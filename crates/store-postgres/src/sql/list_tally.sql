-- Lists the counts of a queue, summed over the shards; those of the states $2, archived ones (in shards below
-- zero) if $3. No row: no such queue; one row without routes: no task.
SELECT queues.queue_key, tally.routes, tally.status, coalesce(sum(tally.tasks), 0)::bigint AS tasks
FROM taskqueue.queues
LEFT JOIN taskqueue.tally
    ON tally.queue_key = queues.queue_key AND tally.status = ANY($2) AND ($3 OR tally.shard >= 0)
WHERE queues.name = $1
GROUP BY queues.queue_key, tally.routes, tally.status;
