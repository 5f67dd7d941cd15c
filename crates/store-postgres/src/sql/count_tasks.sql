-- Counts the tasks of a queue that meet a condition, which replaces `true`. The planner removes the joins that the condition
-- does not need.
SELECT count(*) AS tasks
FROM taskqueue.tasks
LEFT JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.queue_key = $1 AND true;
