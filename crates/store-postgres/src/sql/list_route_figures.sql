-- Lists what pending and running tasks and current workers of the queues $1 add to their routes, by queue and route: a route has
-- several rows, whose sum is what it has. Archived tasks, in shards below zero, are left out. Without $2 the time is that of the
-- service (table `clock`).
SELECT
    tally.queue_key,
    named.route COLLATE "C" AS route,
    CASE WHEN tally.status = 'pending' THEN tally.tasks ELSE 0 END AS pending,
    CASE WHEN tally.status = 'running' THEN tally.tasks ELSE 0 END AS running,
    0::bigint AS idle,
    0::bigint AS busy
FROM taskqueue.tally
CROSS JOIN LATERAL json_array_elements_text(tally.routes::json) AS named (route)
WHERE tally.queue_key = ANY($1) AND tally.shard >= 0 AND tally.status IN ('pending', 'running') AND tally.tasks <> 0
UNION ALL
SELECT
    observations.queue_key,
    observations.route,
    0 AS pending,
    0 AS running,
    count(*) FILTER (WHERE observations.status = 'idle') AS idle,
    count(*) FILTER (WHERE observations.status = 'busy') AS busy
FROM taskqueue.observations
WHERE observations.queue_key = ANY($1) AND observations.expires_at > coalesce($2, (
    SELECT greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + offset_micros, last_scan_at)
    FROM taskqueue.clock
    WHERE one = 1
))
GROUP BY observations.queue_key, observations.route
ORDER BY queue_key, route;
