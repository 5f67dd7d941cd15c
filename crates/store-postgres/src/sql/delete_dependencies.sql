-- Forgets that tasks wait for others. Whoever changes such a row holds the task, so that none of them moves.
DELETE FROM taskqueue.dependencies
WHERE ctid = ANY (ARRAY(
    SELECT noted.ctid
    FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS gone (queue_key, dependency, task_key)
    CROSS JOIN LATERAL (
        -- As in list_noted.
        SELECT dependencies.ctid
        FROM taskqueue.dependencies
        WHERE dependencies.queue_key = gone.queue_key AND dependencies.dependency = gone.dependency
            AND dependencies.task_key = gone.task_key
        LIMIT 1
    ) AS noted
));
