-- Lists which states some queues keep for a limited time, and for how long: the next $2 queues behind $1.
SELECT retention.queue_key, retention.status, retention.kept_micros
FROM (
    SELECT DISTINCT queue_key FROM taskqueue.retention WHERE queue_key > $1 ORDER BY queue_key LIMIT $2
) AS queues
JOIN taskqueue.retention ON retention.queue_key = queues.queue_key
ORDER BY retention.queue_key, retention.status;
