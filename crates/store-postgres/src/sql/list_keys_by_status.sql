-- Lists the keys of the tasks of the queue $1 that have one of the states $2, `succeeded` excepted. They are found in the tables
-- that hold only tasks of one state, and then looked up by their key. The array keeps the planner from any other way.
SELECT tasks.task_key
FROM taskqueue.tasks
WHERE tasks.task_key = ANY (ARRAY(
    SELECT task_key FROM taskqueue.unsuccessful WHERE queue_key = $1 AND status = ANY($2)
    UNION ALL
    SELECT task_key FROM taskqueue.running WHERE 'running' = ANY($2)
    UNION ALL
    SELECT task_key FROM taskqueue.ready WHERE queue_key = $1 AND 'pending' = ANY($2)
    UNION ALL
    SELECT task_key FROM taskqueue.delayed WHERE queue_key = $1 AND 'pending' = ANY($2)
    UNION ALL
    -- Pending tasks that are in neither have a dependency that has not succeeded (1 in `DependencyState::ALL`).
    SELECT task_key FROM taskqueue.dependencies WHERE queue_key = $1 AND state <> 1 AND 'pending' = ANY($2)
)) AND tasks.queue_key = $1 AND tasks.status = ANY($2);
