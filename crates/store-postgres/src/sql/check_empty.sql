-- Whether the database holds nothing, not even tasks of a deleted queue.
SELECT
    NOT EXISTS (SELECT 1 FROM taskqueue.queues) AND NOT EXISTS (SELECT 1 FROM taskqueue.tasks)
    AND NOT EXISTS (SELECT 1 FROM taskqueue.purges);
