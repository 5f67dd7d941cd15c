-- The check of a whole file.

-- name: LIST_HEADS
-- Lists all tasks without their JSON, in one pass over the narrow table.
SELECT {claim_index_columns}
FROM tasks;

-- name: CHECK_DELETED_RUNS
-- Lists the run ids of deleted tasks, for a check.
SELECT kept_until, run_id FROM deleted_runs;

-- name: CHECK_OBSERVATIONS
-- Lists all observations with the keys of their queues, for a check.
SELECT {observation_columns}, observations.queue_key FROM observations;

-- name: CHECK_OUTPUT_PIECES
-- Lists where the pieces of the output of a task lie, for a check.
SELECT start, length(bytes) FROM output_pieces WHERE task_key = ?1 ORDER BY start;

-- name: CHECK_REFERENCES
-- Lists rows that belong to nothing, for a check: what is wrong, and the key of the row.
SELECT 'a task without a definition' AS what, tasks.task_key AS row_key
FROM tasks WHERE NOT EXISTS (SELECT 1 FROM definitions WHERE definitions.task_key = tasks.task_key)
UNION ALL
SELECT 'a task that names an outcome which is not its own or not there', tasks.task_key
FROM tasks
WHERE tasks.outcome_key IS NOT NULL
    AND (tasks.outcome_key <> tasks.task_key
        OR NOT EXISTS (SELECT 1 FROM outcomes WHERE outcomes.task_key = tasks.outcome_key))
UNION ALL
SELECT 'a task of a queue that does not exist', tasks.task_key
FROM tasks
WHERE NOT EXISTS (SELECT 1 FROM queues WHERE queues.queue_key = tasks.queue_key)
    AND NOT EXISTS (SELECT 1 FROM purges WHERE purges.queue_key = tasks.queue_key)
UNION ALL
SELECT 'a definition without a task', definitions.task_key
FROM definitions WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.task_key = definitions.task_key)
UNION ALL
SELECT 'an outcome that no task names', outcomes.task_key
FROM outcomes
WHERE NOT EXISTS (
    SELECT 1 FROM tasks WHERE tasks.task_key = outcomes.task_key AND tasks.outcome_key = outcomes.task_key)
UNION ALL
SELECT 'a past run without a task', past_runs.task_key
FROM past_runs WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.task_key = past_runs.task_key)
UNION ALL
SELECT 'output without a task', outputs.task_key
FROM outputs WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.task_key = outputs.task_key)
UNION ALL
SELECT 'a piece of output that is not kept', output_pieces.task_key
FROM output_pieces WHERE NOT EXISTS (SELECT 1 FROM outputs WHERE outputs.task_key = output_pieces.task_key)
UNION ALL
SELECT 'an observation of a queue that does not exist', observations.queue_key
FROM observations WHERE NOT EXISTS (SELECT 1 FROM queues WHERE queues.queue_key = observations.queue_key)
UNION ALL
SELECT 'a count of a queue that does not exist', tally.queue_key
FROM tally WHERE NOT EXISTS (SELECT 1 FROM queues WHERE queues.queue_key = tally.queue_key)
UNION ALL
SELECT 'settings of a queue that does not exist', queue_settings.queue_key
FROM queue_settings WHERE NOT EXISTS (SELECT 1 FROM queues WHERE queues.queue_key = queue_settings.queue_key)
UNION ALL
SELECT 'activity of a queue that does not exist', activity.queue_key
FROM activity
WHERE NOT EXISTS (SELECT 1 FROM queues WHERE queues.queue_key = activity.queue_key)
    AND NOT EXISTS (SELECT 1 FROM purges WHERE purges.queue_key = activity.queue_key)
UNION ALL
SELECT 'a dependency of a task that does not exist', dependencies.task_key
FROM dependencies
WHERE NOT EXISTS (
        SELECT 1 FROM tasks
        WHERE tasks.task_key = dependencies.task_key AND tasks.queue_key = dependencies.queue_key)
    AND NOT EXISTS (SELECT 1 FROM purges WHERE purges.queue_key = dependencies.queue_key)
UNION ALL
SELECT 'dependents to settle of a queue that does not exist', unsettled.queue_key
FROM unsettled WHERE NOT EXISTS (SELECT 1 FROM queues WHERE queues.queue_key = unsettled.queue_key)
UNION ALL
SELECT 'a queue that exists and is being removed', purges.queue_key
FROM purges WHERE EXISTS (SELECT 1 FROM queues WHERE queues.queue_key = purges.queue_key);

-- name: CHECK_TALLY
-- Lists all counts, for a check.
SELECT queue_key, routes, status, tasks, archived FROM tally;

-- name: LIST_OBJECTS
-- Lists the tables, indexes and columns that there are.
SELECT type || ' ' || name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'
UNION SELECT 'column ' || objects.name || '.' || columns.name || ' ' || columns.type
FROM sqlite_schema AS objects, pragma_table_info(objects.name) AS columns
WHERE objects.type = 'table' AND objects.name NOT LIKE 'sqlite_%'
UNION SELECT 'column ' || columns.seqno || ' of index ' || objects.name || ': ' || coalesce(columns.name, '')
FROM sqlite_schema AS objects, pragma_index_info(objects.name) AS columns
WHERE objects.type = 'index' AND objects.name NOT LIKE 'sqlite_%';
