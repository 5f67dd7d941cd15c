-- Of the first $1 tasks that were waited for when they did not exist, removes those that still do not, and those that are to all of
-- their dependents what is noted ($2 are the states of tasks, $3 what they are to others). Those that another transaction is
-- changing stay.
WITH
    doubtful AS MATERIALIZED (
        SELECT unsettled_key, queue_key, dependency
        FROM taskqueue.unsettled
        WHERE was_missing
        ORDER BY unsettled_key
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    ),
    looked_up AS MATERIALIZED (
        SELECT doubtful.*, seen.id, locked.status
        FROM doubtful
        LEFT JOIN LATERAL (
            SELECT tasks.id FROM taskqueue.tasks
            WHERE tasks.queue_key = doubtful.queue_key AND tasks.id >= doubtful.dependency
                AND tasks.id <= doubtful.dependency
            ORDER BY tasks.id
            LIMIT 1
        ) AS seen ON true
        LEFT JOIN LATERAL (
            SELECT tasks.status FROM taskqueue.tasks
            WHERE tasks.queue_key = doubtful.queue_key AND tasks.id >= doubtful.dependency
                AND tasks.id <= doubtful.dependency
            ORDER BY tasks.id
            LIMIT 1
            FOR SHARE SKIP LOCKED
        ) AS locked ON true
    )
DELETE FROM taskqueue.unsettled
WHERE unsettled_key = ANY (ARRAY(
    SELECT looked_up.unsettled_key
    FROM looked_up
    WHERE looked_up.id IS NULL OR (looked_up.status IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM taskqueue.dependencies
        WHERE dependencies.queue_key = looked_up.queue_key AND dependencies.dependency = looked_up.dependency
            AND dependencies.state <> ($3::smallint[])[array_position($2::text[], looked_up.status)]
    ))
));
