-- Finds the status of each of the tasks $2 of the queue $1; null for those that do not exist.
SELECT named.id, tasks.status
FROM unnest($2::text[]) AS named (id)
LEFT JOIN LATERAL (
    SELECT * FROM taskqueue.tasks
    WHERE tasks.queue_key = $1 AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
) AS tasks ON true
ORDER BY named.id;
