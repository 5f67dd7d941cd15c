-- Lists where the list of running tasks and the running tasks differ, for a check.
SELECT 'a running task is not in the list of running tasks' AS what, tasks.task_key
FROM taskqueue.tasks
WHERE tasks.status = 'running' AND NOT EXISTS (SELECT 1 FROM taskqueue.running WHERE running.task_key = tasks.task_key)
UNION ALL
SELECT 'the list of running tasks has one that is not running', running.task_key
FROM taskqueue.running
WHERE NOT EXISTS (
    SELECT 1 FROM taskqueue.tasks WHERE tasks.task_key = running.task_key AND tasks.status = 'running'
);
