-- A transfer from and to another database.

-- name: CHECK_EMPTY
-- Whether the database holds nothing, not even tasks of a deleted queue.
SELECT NOT EXISTS (SELECT 1 FROM queues) AND NOT EXISTS (SELECT 1 FROM tasks) AND NOT EXISTS (SELECT 1 FROM purges);

-- name: CLEAR_DELETED_RUNS
-- Forgets the run ids of all deleted tasks, before a transfer adds those of the other database.
DELETE FROM deleted_runs;

-- name: COUNT_DERIVED
-- Counts past runs of the tasks of existing queues, and observations. A transfer compares the counts of both databases; what
-- it derives from the tasks themselves comes from list_heads.
SELECT
    (SELECT count(*) FROM past_runs JOIN tasks ON tasks.task_key = past_runs.task_key
     WHERE tasks.queue_key IN (SELECT queue_key FROM queues)) AS past_runs,
    (SELECT count(*) FROM observations) AS observations;

-- name: TRANSFER_QUEUE
-- Adds a queue with the key that it has in the other database.
INSERT INTO queues (queue_key, name) VALUES (?1, ?2);

-- name: TRANSFER_TASKS
-- Lists whole tasks of all existing queues after a key, by key, for a transfer. The order of the joins is fixed (CROSS
-- JOIN), so that each chunk reads neighbouring rows.
SELECT {transferred_columns}
FROM tasks NOT INDEXED
CROSS JOIN queues ON queues.queue_key = tasks.queue_key
CROSS JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.task_key > ?1
ORDER BY tasks.task_key;

-- name: TRANSFER_DELETED_RUNS
-- Lists run ids of deleted tasks after one of them, by time and id, for a transfer. Also those of tasks that are still
-- being purged.
SELECT run_id, kept_until
FROM (
    SELECT kept_until, run_id FROM deleted_runs WHERE (kept_until, run_id) > (?1, ?2)
    UNION ALL
    SELECT purges.kept_until, past_runs.run_id
    FROM purges
    JOIN tasks ON tasks.queue_key = purges.queue_key
    JOIN past_runs ON past_runs.task_key = tasks.task_key
    UNION ALL
    SELECT purges.kept_until, {finished_run_id} AS finished_run_id
    FROM purges
    JOIN tasks ON tasks.queue_key = purges.queue_key
    WHERE finished_run_id IS NOT NULL
) AS deleted
WHERE (kept_until, run_id) > (?1, ?2)
ORDER BY kept_until, run_id
LIMIT ?3;
