-- Lists runs of tasks that are not among the used run ids as theirs, and used run ids of nothing, for a check. One run id in two
-- tasks is found this way, too: it can be among the used ones for one of them only.
SELECT 'a run of the task is not known to be used by it' AS what, tasks.task_key
FROM taskqueue.tasks
CROSS JOIN LATERAL (VALUES (tasks.run_id), (tasks.finished_run_id)) AS own (run_id)
WHERE own.run_id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM taskqueue.runs WHERE runs.run_id = own.run_id AND runs.task_key = tasks.task_key)
UNION ALL
SELECT 'a used run id belongs to no task', runs.task_key
FROM taskqueue.runs
WHERE runs.kept_until IS NULL AND NOT EXISTS (SELECT 1 FROM taskqueue.tasks WHERE tasks.task_key = runs.task_key);
