-- Lists those of these tasks that no longer exist.
SELECT task_key FROM unnest($1::bigint[]) AS known (task_key)
WHERE NOT EXISTS (SELECT FROM taskqueue.tasks WHERE tasks.task_key = known.task_key);
