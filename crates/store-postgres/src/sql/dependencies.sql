-- Tasks that wait for others.

-- name: HAS_DEPENDENTS
-- Whether any task of a queue waits, or waited, for another one.
SELECT EXISTS (SELECT 1 FROM taskqueue.dependencies WHERE queue_key = $1::bigint);

-- name: SAVE_DEPENDENCIES
-- Notes what dependencies are to tasks that wait for them.
INSERT INTO taskqueue.dependencies (queue_key, dependency, task_key, state)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::smallint[])
ON CONFLICT (queue_key, dependency, task_key) DO UPDATE SET state = excluded.state;

-- name: INSERT_DEPENDENCIES
-- The same for new tasks, of which nothing is noted yet: two thirds of the work.
INSERT INTO taskqueue.dependencies (queue_key, dependency, task_key, state)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::smallint[]);

-- name: DELETE_DEPENDENCIES
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

-- name: LOCK_STATUSES
-- Locks tasks of a queue against changes, except those that other transactions are changing, and reads their status. Others may
-- lock them in the same way. No row: no such task; a row without a status: others are changing it.
SELECT named.id, locked.status
FROM unnest($2::text[]) AS named (id)
CROSS JOIN LATERAL (
    -- A range and an order, which only the index by id can serve (lock_tasks).
    SELECT tasks.id FROM taskqueue.tasks
    WHERE tasks.queue_key = $1::bigint AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
) AS seen
LEFT JOIN LATERAL (
    SELECT tasks.status FROM taskqueue.tasks
    WHERE tasks.queue_key = $1 AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
    FOR SHARE SKIP LOCKED
) AS locked ON true;

-- name: LOCK_NAMED_STATUSES
-- The same as lock_statuses, by the names of queues.
SELECT queues.queue_key, named.id, locked.status, seen.id IS NOT NULL AS is_there
FROM unnest($1::text[], $2::text[]) AS named (queue, id)
JOIN taskqueue.queues ON queues.name = named.queue
LEFT JOIN LATERAL (
    SELECT tasks.id FROM taskqueue.tasks
    WHERE tasks.queue_key = queues.queue_key AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
) AS seen ON true
LEFT JOIN LATERAL (
    SELECT tasks.status FROM taskqueue.tasks
    WHERE tasks.queue_key = queues.queue_key AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
    FOR SHARE SKIP LOCKED
) AS locked ON true;

-- name: LOCK_DEPENDENTS
-- Of the tasks that wait for one, with keys above $3, locks the first $4, except those that other transactions hold, and loads them
-- without their JSON. What is noted of them is read by the next statement (list_dependents).
SELECT {head_columns}
FROM (
    SELECT dependencies.task_key
    FROM taskqueue.dependencies
    WHERE dependencies.queue_key = $1::bigint AND dependencies.dependency = $2::text AND dependencies.task_key > $3::bigint
    ORDER BY dependencies.queue_key, dependencies.dependency, dependencies.task_key
    LIMIT $4::bigint
) AS waiting
CROSS JOIN LATERAL (
    SELECT tasks.* FROM taskqueue.tasks WHERE tasks.task_key = waiting.task_key FOR UPDATE SKIP LOCKED
) AS tasks;

-- name: LIST_DEPENDENTS
-- Lists the tasks that wait for one, with keys above $3, $4 at most, by key, what is noted of that, and whether they exist.
SELECT waiting.queue_key, waiting.dependency, waiting.task_key, waiting.state, seen.task_key IS NOT NULL AS is_there
FROM (
    SELECT dependencies.queue_key, dependencies.dependency, dependencies.task_key, dependencies.state
    FROM taskqueue.dependencies
    WHERE dependencies.queue_key = $1::bigint AND dependencies.dependency = $2::text AND dependencies.task_key > $3::bigint
    ORDER BY dependencies.queue_key, dependencies.dependency, dependencies.task_key
    LIMIT $4::bigint
) AS waiting
LEFT JOIN LATERAL (
    SELECT tasks.task_key FROM taskqueue.tasks WHERE tasks.task_key = waiting.task_key ORDER BY tasks.task_key LIMIT 1
) AS seen ON true
ORDER BY waiting.task_key;

-- name: LOCK_NAMED_DEPENDENTS
-- Locks the tasks that wait for these, $3 pairs at most, except those that other transactions hold, and loads them without their
-- JSON, each once: one may wait for all of these. What is noted of them is read by the next statement (list_named_dependents): for
-- those that were locked it is as it is then until this transaction ends.
SELECT {head_columns}
FROM taskqueue.tasks
WHERE tasks.task_key = ANY (ARRAY(
    SELECT waiting.task_key
    FROM unnest($1::text[], $2::text[]) AS named (queue, id)
    JOIN taskqueue.queues ON queues.name = named.queue
    CROSS JOIN LATERAL (
        -- As in list_named_dependents.
        SELECT dependencies.task_key
        FROM taskqueue.dependencies
        WHERE dependencies.queue_key = queues.queue_key AND dependencies.dependency >= named.id
            AND dependencies.dependency <= named.id
        ORDER BY dependencies.queue_key, dependencies.dependency, dependencies.task_key
        LIMIT $3::bigint
    ) AS waiting
    LIMIT $3
))
FOR UPDATE SKIP LOCKED;

-- name: LIST_NAMED_DEPENDENTS
-- Lists which tasks wait for these, $3 at most, what is noted of that, and whether they exist.
SELECT waiting.queue_key, waiting.dependency, waiting.task_key, waiting.state, seen.task_key IS NOT NULL AS is_there
FROM unnest($1::text[], $2::text[]) AS named (queue, id)
JOIN taskqueue.queues ON queues.name = named.queue
CROSS JOIN LATERAL (
    -- A range and an order, which only the primary key can serve: many tasks may wait for one, and no plan may read them all.
    SELECT dependencies.queue_key, dependencies.dependency, dependencies.task_key, dependencies.state
    FROM taskqueue.dependencies
    WHERE dependencies.queue_key = queues.queue_key AND dependencies.dependency >= named.id
        AND dependencies.dependency <= named.id
    ORDER BY dependencies.queue_key, dependencies.dependency, dependencies.task_key
    LIMIT $3::bigint
) AS waiting
LEFT JOIN LATERAL (
    SELECT tasks.task_key FROM taskqueue.tasks WHERE tasks.task_key = waiting.task_key ORDER BY tasks.task_key LIMIT 1
) AS seen ON true
LIMIT $3;

-- name: WALK_DEPENDENTS
-- Walks from the tasks $2 to those that wait for them, and, with $4, on from those that are cancelled with them: $3 pairs at most, the
-- nearest first. Nothing is locked here: what was found is locked next (LOCK_FOUND), and listed after that.
WITH RECURSIVE walk AS (
    SELECT named.id COLLATE "C" AS dependency, waiting.task_key, waiting.id, waiting.goes_on
    FROM unnest($2::text[]) AS named (id)
    CROSS JOIN LATERAL (
        -- As in list_named_dependents.
        SELECT pair.task_key, task.id, $4::boolean AND coalesce(task.goes_on, false) AS goes_on
        FROM (
            SELECT dependencies.task_key
            FROM taskqueue.dependencies
            WHERE dependencies.queue_key = $1::bigint AND dependencies.dependency >= named.id
                AND dependencies.dependency <= named.id
            ORDER BY dependencies.queue_key, dependencies.dependency, dependencies.task_key
            LIMIT $3::bigint
        ) AS pair
        LEFT JOIN LATERAL (
            SELECT
                tasks.id,
                tasks.status = 'pending'
                    AND strpos(tasks.scheduling, '"on_dependency_failure":"cancel"') > 0 AS goes_on
            FROM taskqueue.tasks WHERE tasks.task_key = pair.task_key ORDER BY tasks.task_key LIMIT 1
        ) AS task ON true
    ) AS waiting
    UNION
    SELECT walk.id, waiting.task_key, waiting.id, waiting.goes_on
    FROM walk
    CROSS JOIN LATERAL (
        SELECT pair.task_key, task.id, coalesce(task.goes_on, false) AS goes_on
        FROM (
            SELECT dependencies.task_key
            FROM taskqueue.dependencies
            WHERE dependencies.queue_key = $1 AND dependencies.dependency >= walk.id
                AND dependencies.dependency <= walk.id
            ORDER BY dependencies.queue_key, dependencies.dependency, dependencies.task_key
            LIMIT $3
        ) AS pair
        LEFT JOIN LATERAL (
            SELECT
                tasks.id,
                tasks.status = 'pending'
                    AND strpos(tasks.scheduling, '"on_dependency_failure":"cancel"') > 0 AS goes_on
            FROM taskqueue.tasks WHERE tasks.task_key = pair.task_key ORDER BY tasks.task_key LIMIT 1
        ) AS task ON true
    ) AS waiting
    WHERE walk.goes_on
)
SELECT walk.dependency, walk.task_key, walk.id, walk.goes_on FROM walk LIMIT $3;

-- name: LIST_WALKED_DEPENDENTS
-- Lists which tasks wait for the tasks $2, $3 at most, what is noted of that, and whether they exist.
SELECT waiting.queue_key, waiting.dependency, waiting.task_key, waiting.state, seen.task_key IS NOT NULL AS is_there
FROM unnest($2::text[]) AS named (id)
CROSS JOIN LATERAL (
    -- As in list_named_dependents.
    SELECT dependencies.queue_key, dependencies.dependency, dependencies.task_key, dependencies.state
    FROM taskqueue.dependencies
    WHERE dependencies.queue_key = $1::bigint AND dependencies.dependency >= named.id
        AND dependencies.dependency <= named.id
    ORDER BY dependencies.queue_key, dependencies.dependency, dependencies.task_key
    LIMIT $3::bigint
) AS waiting
LEFT JOIN LATERAL (
    SELECT tasks.task_key FROM taskqueue.tasks WHERE tasks.task_key = waiting.task_key ORDER BY tasks.task_key LIMIT 1
) AS seen ON true
LIMIT $3;

-- name: LIST_NOTED
-- Lists what is noted of these dependencies of the task $2.
SELECT noted.queue_key, noted.dependency, noted.task_key, noted.state, true AS is_there
FROM unnest($3::text[]) AS named (id)
CROSS JOIN LATERAL (
    -- Looked up one by one: many tasks may wait for one, and no plan may read them all.
    SELECT dependencies.queue_key, dependencies.dependency, dependencies.task_key, dependencies.state
    FROM taskqueue.dependencies
    WHERE dependencies.queue_key = $1::bigint AND dependencies.dependency = named.id AND dependencies.task_key = $2::bigint
    LIMIT 1
) AS noted;

-- name: FIND_UNSETTLED
-- The next $2 tasks behind the row $1 whose dependents are to be looked at again, except those that other servers are at; and whether
-- the queue of each exists.
SELECT
    unsettled_key, queue_key, dependency, after_key, was_missing,
    EXISTS (SELECT 1 FROM taskqueue.queues WHERE queues.queue_key = unsettled.queue_key) AS has_queue
FROM taskqueue.unsettled
WHERE unsettled_key > $1::bigint
ORDER BY unsettled_key
LIMIT $2::bigint
FOR UPDATE SKIP LOCKED;

-- name: INSERT_UNSETTLED
-- Notes tasks whose dependents are to be looked at again.
INSERT INTO taskqueue.unsettled (queue_key, dependency, was_missing)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::boolean[]);

-- name: DELETE_UNSETTLED
-- All dependents of these tasks were looked at.
DELETE FROM taskqueue.unsettled WHERE unsettled_key = ANY($1::bigint[]);

-- name: SAVE_SETTLED
-- Notes behind which of its dependents to go on with a task.
UPDATE taskqueue.unsettled SET after_key = $2::bigint WHERE unsettled_key = $1::bigint;
