-- Whether a task is claimable for a route at the time $4, other than those that this transaction has changed; in the pending order,
-- or not moved there yet by whoever holds it. The keys are looked up in a hash table, which a comparison with a parameter of an array
-- type or a join in a writer's transaction would not make.
SELECT EXISTS (
    SELECT 1
    FROM taskqueue.ready
    JOIN taskqueue.tasks ON tasks.task_key = ready.task_key
    WHERE ready.queue_key = $1 AND ready.route = $2 AND ready.task_key NOT IN (SELECT unnest($3))
        AND tasks.unmet IS NULL AND (tasks.not_before IS NULL OR tasks.not_before <= $4)
) OR EXISTS (
    SELECT 1
    FROM taskqueue.delayed
    JOIN taskqueue.tasks ON tasks.task_key = delayed.task_key
    -- As in move_due.
    WHERE delayed.queue_key >= $1 AND (delayed.queue_key, delayed.not_before) <= ($1, $4)
        AND delayed.task_key NOT IN (SELECT unnest($3))
        AND tasks.status = 'pending' AND strpos(tasks.routes, '"' || $2 || '"') > 0
    ORDER BY delayed.queue_key, delayed.not_before
    LIMIT 1
);
