-- Counts the running tasks of a queue that limits claims, by the route that they were claimed for.
SELECT route, count(*) AS tasks FROM taskqueue.running WHERE queue_key = $1 GROUP BY route;
