-- Lists what is noted of all dependencies, with what they are if they exist, whether their dependents are to be looked at
-- again, and whether the task exists that waits.
SELECT
    dependencies.queue_key, dependencies.dependency, dependencies.state, tasks.status, EXISTS (
        SELECT 1 FROM unsettled
        WHERE unsettled.queue_key = dependencies.queue_key AND unsettled.dependency = dependencies.dependency
    ) AS is_unsettled,
    EXISTS (SELECT 1 FROM tasks AS waiting WHERE waiting.task_key = dependencies.task_key) AS has_task
FROM dependencies
LEFT JOIN tasks ON tasks.queue_key = dependencies.queue_key AND tasks.id = dependencies.dependency
ORDER BY dependencies.queue_key, dependencies.dependency;
