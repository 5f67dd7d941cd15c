SELECT {head_columns}
FROM tasks
WHERE tasks.task_key = ?1;
