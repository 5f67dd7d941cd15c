-- Lists the counts that are not the numbers of tasks, for a check.
SELECT
    queues.name, status, left(routes, 200) AS routes,
    coalesce(kept.tasks, 0) AS kept, coalesce(found.tasks, 0) AS found
FROM (
    SELECT queue_key, routes, status, shard < 0 AS archived, sum(tasks)::bigint AS tasks
    FROM taskqueue.tally
    GROUP BY queue_key, routes, status, shard < 0
) AS kept
FULL JOIN (
    SELECT queue_key, routes, status, coalesce(archived, false) AS archived, count(*) AS tasks
    FROM taskqueue.tasks
    GROUP BY queue_key, routes, status, coalesce(archived, false)
) AS found USING (queue_key, routes, status, archived)
JOIN taskqueue.queues USING (queue_key)
WHERE coalesce(kept.tasks, 0) <> coalesce(found.tasks, 0)
ORDER BY queues.name, routes, status;
