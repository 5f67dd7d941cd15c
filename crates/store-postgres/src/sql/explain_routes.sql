-- For each of the routes $2 of a task of the queue $1: how many tasks of the pending order come before it, counted up to $5; how many
-- running tasks were claimed for the route, and how many the queue has, if it limits claims. The task has the priority $3 and the place
-- $4. Each count is a walk along an index.
SELECT
    wanted.place,
    least($5, (
        SELECT count(*)
        FROM (
            SELECT 1 FROM taskqueue.ready
            WHERE ready.queue_key = $1 AND ready.route = wanted.route AND ready.priority > $3
            LIMIT $5
        ) AS higher
    ) + (
        SELECT count(*)
        FROM (
            SELECT 1 FROM taskqueue.ready
            WHERE ready.queue_key = $1 AND ready.route = wanted.route AND ready.priority = $3 AND ready.pending_seq < $4
            LIMIT $5
        ) AS earlier
    )) AS ahead,
    (SELECT count(*) FROM taskqueue.running WHERE running.queue_key = $1 AND running.route = wanted.route) AS of_route,
    counted.of_queue
FROM unnest($2::text[]) WITH ORDINALITY AS wanted (route, place)
CROSS JOIN (SELECT count(*) AS of_queue FROM taskqueue.running WHERE running.queue_key = $1) AS counted
ORDER BY wanted.place;
