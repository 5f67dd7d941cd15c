-- Reads the next $3 tasks of a queue $1 in the order of their ids, behind $2, without their JSON.
SELECT {head_columns}
FROM taskqueue.tasks
WHERE tasks.queue_key = $1 AND tasks.id > $2
ORDER BY tasks.id
LIMIT $3;
