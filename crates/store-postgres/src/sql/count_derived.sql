-- Counts what is derived from the tasks of the queues $1: running tasks, pending entries (one per task and route, also
-- of tasks that wait beside the pending order), run ids;
-- and observations. A transfer compares the counts of both databases.
SELECT
    (SELECT count(*) FROM taskqueue.running JOIN taskqueue.tasks USING (task_key) WHERE tasks.queue_key = ANY($1))
        AS running,
    (SELECT count(*) FROM taskqueue.ready WHERE ready.queue_key = ANY($1)) + coalesce((
        SELECT sum(array_length(string_to_array(tasks.routes, ','), 1))
        FROM taskqueue.tasks
        WHERE tasks.queue_key = ANY($1) AND tasks.status = 'pending' AND (tasks.unmet IS NOT NULL OR EXISTS (
            SELECT 1 FROM taskqueue.delayed
            WHERE delayed.queue_key = tasks.queue_key AND delayed.not_before = tasks.not_before
                AND delayed.task_key = tasks.task_key
        ))
    ), 0) AS pending,
    (SELECT count(*) FROM taskqueue.runs JOIN taskqueue.tasks USING (task_key) WHERE tasks.queue_key = ANY($1)) AS runs,
    (SELECT count(*) FROM taskqueue.observations WHERE observations.queue_key = ANY($1)) AS observations;
