-- Counts the tasks of a queue, and the running ones among them.
SELECT
    coalesce(sum(tasks), 0)::bigint AS tasks,
    coalesce(sum(tasks) FILTER (WHERE status = 'running'), 0)::bigint AS running
FROM taskqueue.tally
WHERE queue_key = $1;
