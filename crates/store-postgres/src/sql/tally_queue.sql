SELECT
    coalesce(sum(tasks), 0)::bigint, coalesce(sum(tasks) FILTER (WHERE status = 'running'), 0)::bigint
FROM taskqueue.tally
WHERE queue_key = $1;
