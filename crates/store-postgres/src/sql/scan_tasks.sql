-- Reads the tasks of a queue in no order, with the JSON that a filter reads: definitions if $2, outcomes if $3. Other JSON is
-- a constant null, and its join is removed by the planner.
SELECT {filtered_columns}
FROM taskqueue.tasks
LEFT JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.queue_key = $1 AND true;
