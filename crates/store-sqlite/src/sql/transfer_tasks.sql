-- Every task of every queue that exists, whole, behind a key, in the order of the keys; with identity and queue. The
-- order of the joins is fixed (CROSS JOIN), so that each chunk is one walk over neighbouring rows.
SELECT {transferred_columns}
FROM tasks NOT INDEXED
CROSS JOIN queues ON queues.queue_key = tasks.queue_key
CROSS JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.task_key > ?1
ORDER BY tasks.task_key;
