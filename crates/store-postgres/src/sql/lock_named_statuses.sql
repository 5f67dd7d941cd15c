-- The same as lock_statuses, by the names of queues.
SELECT queues.queue_key, named.id, locked.status, seen.id IS NOT NULL AS is_there
FROM unnest($1::text[], $2::text[]) AS named (queue, id)
JOIN taskqueue.queues ON queues.name = named.queue
LEFT JOIN LATERAL (
    SELECT tasks.id FROM taskqueue.tasks
    WHERE tasks.queue_key = queues.queue_key AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
) AS seen ON true
LEFT JOIN LATERAL (
    SELECT tasks.status FROM taskqueue.tasks
    WHERE tasks.queue_key = queues.queue_key AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
    FOR SHARE SKIP LOCKED
) AS locked ON true;
