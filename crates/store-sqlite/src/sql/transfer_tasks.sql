-- Lists whole tasks of all existing queues after a key, by key, for a transfer. The order of the joins is fixed (CROSS
-- JOIN), so that each chunk reads neighbouring rows.
SELECT {transferred_columns}
FROM tasks NOT INDEXED
CROSS JOIN queues ON queues.queue_key = tasks.queue_key
CROSS JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.task_key > ?1
ORDER BY tasks.task_key;
