-- Saves the names of tasks.
UPDATE taskqueue.tasks SET name = saved.name
FROM unnest($1::bigint[], $2::text[]) AS saved (task_key, name)
WHERE tasks.task_key = saved.task_key;
