-- The next $2 tasks behind the row $1 whose dependents are to be looked at again, except those that other servers are at; and whether
-- the queue of each exists.
SELECT
    unsettled_key, queue_key, dependency, after_key, was_missing,
    EXISTS (SELECT 1 FROM taskqueue.queues WHERE queues.queue_key = unsettled.queue_key) AS has_queue
FROM taskqueue.unsettled
WHERE unsettled_key > $1
ORDER BY unsettled_key
LIMIT $2
FOR UPDATE SKIP LOCKED;
