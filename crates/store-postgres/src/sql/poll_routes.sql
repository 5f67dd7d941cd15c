-- For each route that claims wait for: whether its queue exists, and how many tasks are pending, at most as many as there
-- are waiters. The order makes it a walk along the index from its beginning.
SELECT
    wanted.place, queues.queue_key IS NOT NULL,
    (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM taskqueue.ready
            WHERE ready.queue_key = queues.queue_key AND ready.route = wanted.route
            ORDER BY ready.priority DESC, ready.pending_seq
            LIMIT wanted.waiting
        ) AS seen
    )
FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS wanted (queue, route, waiting, place)
LEFT JOIN taskqueue.queues ON queues.name = wanted.queue;
