-- Loads what the claim index needs of the tasks with these keys.
SELECT {claim_index_columns}
FROM tasks
WHERE tasks.task_key BETWEEN ?1 AND ?2
ORDER BY tasks.task_key;
