-- Lists where what is noted of dependencies and what tasks wait for differ, for a check.
WITH
    expected AS (
        SELECT
            tasks.queue_key, tasks.task_key,
            unnest(string_to_array(btrim(substring(tasks.scheduling, '"dependencies":\[([^]]*)\]'), '"'), '","'))
                COLLATE "C" AS dependency
        FROM taskqueue.tasks
        JOIN taskqueue.queues USING (queue_key)
        WHERE tasks.scheduling IS NOT NULL
    ),
    found AS (
        SELECT dependencies.queue_key, dependencies.task_key, dependencies.dependency
        FROM taskqueue.dependencies
        JOIN taskqueue.queues USING (queue_key)
    )
SELECT 'it is not noted that a task waits for another one' AS what, task_key
FROM (SELECT * FROM expected EXCEPT ALL SELECT * FROM found) AS missing
UNION ALL
SELECT 'it is noted that a task waits for another one which it does not name', task_key
FROM (SELECT * FROM found EXCEPT ALL SELECT * FROM expected) AS extra
UNION ALL
SELECT 'a task counts another number of unmet dependencies than is noted', tasks.task_key
FROM taskqueue.tasks
JOIN taskqueue.queues USING (queue_key)
LEFT JOIN (
    -- 1 is a dependency that has succeeded (`DependencyState::ALL`).
    SELECT task_key, count(*) AS unmet FROM taskqueue.dependencies WHERE state <> 1 GROUP BY task_key
) AS noted ON noted.task_key = tasks.task_key
WHERE coalesce(tasks.unmet, 0) <> coalesce(noted.unmet, 0);
