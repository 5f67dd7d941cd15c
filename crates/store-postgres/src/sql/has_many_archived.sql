-- Whether a queue has more than $2 archived tasks. They are counted in shards below zero.
SELECT coalesce(sum(tally.tasks), 0) > $2
FROM taskqueue.queues
JOIN taskqueue.tally ON tally.queue_key = queues.queue_key AND tally.shard < 0
WHERE queues.name = $1;
