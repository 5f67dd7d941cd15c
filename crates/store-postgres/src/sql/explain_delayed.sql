-- Lists tasks of the queue $1 whose time has come by $2 and that are not in the pending order yet, at most $3.
SELECT tasks.routes, tasks.priority, tasks.pending_seq
FROM (
    SELECT task_key FROM taskqueue.delayed WHERE queue_key = $1 AND not_before <= $2 ORDER BY not_before LIMIT $3
) AS due
JOIN taskqueue.tasks ON tasks.task_key = due.task_key;
