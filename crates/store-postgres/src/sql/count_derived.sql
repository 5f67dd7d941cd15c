-- Counts what is derived from the tasks of the queues $1: running tasks, pending entries (one per task and route), run ids;
-- and observations. A transfer compares the counts of both databases.
SELECT
    (SELECT count(*) FROM taskqueue.running JOIN taskqueue.tasks USING (task_key) WHERE tasks.queue_key = ANY($1))
        AS running,
    (SELECT count(*) FROM taskqueue.ready WHERE ready.queue_key = ANY($1)) AS pending,
    (SELECT count(*) FROM taskqueue.runs JOIN taskqueue.tasks USING (task_key) WHERE tasks.queue_key = ANY($1)) AS runs,
    (SELECT count(*) FROM taskqueue.observations WHERE observations.queue_key = ANY($1)) AS observations;
