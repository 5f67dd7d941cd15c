-- Counts the tasks of a queue with a status, or all if $2 is null. No row: no such queue.
SELECT coalesce(sum(tally.tasks), 0)::bigint AS tasks
FROM taskqueue.queues
LEFT JOIN taskqueue.tally
    ON tally.queue_key = queues.queue_key AND ($2 IS NULL OR tally.status = $2)
WHERE queues.name = $1
GROUP BY queues.queue_key;
