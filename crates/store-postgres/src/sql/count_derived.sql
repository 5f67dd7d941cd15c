-- Running tasks, places in the order of claims, run ids and observations of the queues $1: the tables that stand beside
-- the tasks.
SELECT
    (SELECT count(*) FROM taskqueue.running JOIN taskqueue.tasks USING (task_key) WHERE tasks.queue_key = ANY($1))
        AS running,
    (SELECT count(*) FROM taskqueue.ready WHERE ready.queue_key = ANY($1)) AS pending,
    (SELECT count(*) FROM taskqueue.runs JOIN taskqueue.tasks USING (task_key) WHERE tasks.queue_key = ANY($1)) AS runs,
    (SELECT count(*) FROM taskqueue.observations WHERE observations.queue_key = ANY($1)) AS observations;
