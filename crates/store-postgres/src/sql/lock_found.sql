-- Locks tasks by their keys, except those that other transactions hold, and loads them without their JSON, with the version of
-- their row. $2 is their queue.
SELECT {head_columns}, tasks.xmin::text::bigint AS version
FROM taskqueue.tasks
WHERE tasks.task_key = ANY($1) AND tasks.queue_key = $2
FOR UPDATE SKIP LOCKED;
