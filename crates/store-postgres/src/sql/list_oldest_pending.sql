-- For each route that is asked for by its number, the task that has been pending longest: the one with the lowest place in the
-- pending order over all priorities. Steps from one priority of a route to the next, all routes side by side, $3 steps in all: the
-- rest of the priorities is not looked at. No step sorts, and none visits more than one task. Only what says since when is loaded:
-- the routes of a task alone may take 33 kB, and each of them may ask for it.
WITH RECURSIVE first_of_priority AS (
    SELECT wanted.queue_key, wanted.route, wanted.route_number, ready.priority, ready.pending_seq, ready.task_key
    FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS wanted (queue_key, route, route_number)
    CROSS JOIN LATERAL (
        SELECT highest.priority, highest.pending_seq, highest.task_key
        FROM taskqueue.ready AS highest
        WHERE highest.queue_key = wanted.queue_key AND highest.route = wanted.route
        ORDER BY highest.priority DESC, highest.pending_seq
        LIMIT 1
    ) AS ready
    UNION ALL
    SELECT before.queue_key, before.route, before.route_number, ready.priority, ready.pending_seq, ready.task_key
    FROM first_of_priority AS before
    CROSS JOIN LATERAL (
        SELECT lower.priority, lower.pending_seq, lower.task_key
        FROM taskqueue.ready AS lower
        WHERE lower.queue_key = before.queue_key AND lower.route = before.route AND lower.priority < before.priority
        ORDER BY lower.priority DESC, lower.pending_seq
        LIMIT 1
    ) AS ready
),

oldest AS (
    SELECT DISTINCT ON (route_number) route_number, task_key
    FROM (SELECT * FROM first_of_priority LIMIT $3) AS seen
    ORDER BY route_number, pending_seq
)

SELECT tasks.created_at, tasks.updated_at, tasks.finished_run_id IS NOT NULL AS was_run, oldest.route_number
FROM oldest
CROSS JOIN LATERAL (
    SELECT * FROM taskqueue.tasks AS found WHERE found.task_key = oldest.task_key LIMIT 1
) AS tasks;
