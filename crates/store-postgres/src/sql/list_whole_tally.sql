-- Sums the counts of every existing queue by status, over the shards.
SELECT tally.queue_key, tally.status, sum(tally.tasks)::bigint AS tasks
FROM taskqueue.tally
JOIN taskqueue.queues ON queues.queue_key = tally.queue_key
GROUP BY tally.queue_key, tally.status;
