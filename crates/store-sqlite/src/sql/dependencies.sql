-- What tasks wait for.

-- name: SAVE_DEPENDENCY
-- Notes what a dependency is to a task.
INSERT INTO dependencies (queue_key, dependency, task_key, state) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (queue_key, dependency, task_key) DO UPDATE SET state = excluded.state WHERE state <> excluded.state;

-- name: FIND_DEPENDENCY
-- Finds what is noted of a dependency of a task.
SELECT state FROM dependencies WHERE queue_key = ?1 AND dependency = ?2 AND task_key = ?3;

-- name: DELETE_DEPENDENCY
-- Deletes what is noted of a dependency of a task.
DELETE FROM dependencies WHERE queue_key = ?1 AND dependency = ?2 AND task_key = ?3;

-- name: DELETE_DEPENDENCIES
-- Deletes some of what is noted for the tasks of a deleted queue, the first ones by key: a search for each of them in a list would
-- read all that the queue has.
DELETE FROM dependencies
WHERE queue_key = ?1 AND (dependency, task_key) <= (
    SELECT dependency, task_key
    FROM (SELECT dependency, task_key FROM dependencies WHERE queue_key = ?1 ORDER BY dependency, task_key LIMIT ?2)
    ORDER BY dependency DESC, task_key DESC
    LIMIT 1
);

-- name: FIND_STATUS_BY_ID
-- Finds the state of a task by its queue and id.
SELECT status FROM tasks WHERE queue_key = ?1 AND id = ?2;

-- name: LIST_DEPENDENTS
-- Lists tasks that wait for a task of a queue, with what is noted of it for each, behind the key ?3.
SELECT task_key, state FROM dependencies
WHERE queue_key = ?1 AND dependency = ?2 AND task_key > ?3 ORDER BY task_key LIMIT ?4;

-- name: LIST_AWAITED
-- Lists what tasks of a queue wait for, ?2 pairs at most.
SELECT dependency FROM dependencies WHERE queue_key = ?1 LIMIT ?2;

-- name: GET_RELATED
-- Reads what is shown of a task beside another one.
SELECT id, status, name FROM tasks WHERE queue_key = ?1 AND id = ?2;

-- name: LIST_RELATED
-- Lists the tasks that wait for the task ?2, or did until they ended, the oldest first.
SELECT tasks.id, tasks.status, tasks.name
FROM dependencies
CROSS JOIN tasks ON tasks.task_key = dependencies.task_key
WHERE dependencies.queue_key = ?1 AND dependencies.dependency = ?2
ORDER BY dependencies.task_key
LIMIT ?3;

-- name: LIST_NOTED_STATUSES
-- Lists what is noted of all dependencies, with what they are if they exist, whether their dependents are to be looked at
-- again, and whether the task exists that waits.
SELECT
    dependencies.queue_key, dependencies.dependency, dependencies.state, tasks.status, EXISTS (
        SELECT 1 FROM unsettled
        WHERE unsettled.queue_key = dependencies.queue_key AND unsettled.dependency = dependencies.dependency
    ) AS is_unsettled,
    EXISTS (SELECT 1 FROM tasks AS waiting WHERE waiting.task_key = dependencies.task_key) AS has_task
FROM dependencies
LEFT JOIN tasks ON tasks.queue_key = dependencies.queue_key AND tasks.id = dependencies.dependency
ORDER BY dependencies.queue_key, dependencies.dependency;

-- name: SAVE_UNSETTLED
-- Notes that the dependents of a task behind a key are to be looked at again; all of them without one.
INSERT INTO unsettled (queue_key, dependency, after_key) VALUES (?1, ?2, ?3)
ON CONFLICT (queue_key, dependency) DO UPDATE SET after_key = excluded.after_key;

-- name: FIND_UNSETTLED
-- Finds a task whose dependents are to be looked at again, and behind which of them to go on.
SELECT queue_key, dependency, after_key FROM unsettled LIMIT 1;

-- name: FIND_UNSETTLED_OF_QUEUE
-- The same in one queue.
SELECT queue_key, dependency, after_key FROM unsettled WHERE queue_key = ?1 LIMIT 1;

-- name: LIST_UNSETTLED
-- Lists the tasks of a queue whose dependents are to be looked at again, for a transfer.
SELECT dependency FROM unsettled WHERE queue_key = ?1 ORDER BY dependency;

-- name: LIST_UNSETTLED_QUEUES
-- Lists the queues in which dependents were left to be settled.
SELECT DISTINCT queue_key FROM unsettled;

-- name: DELETE_UNSETTLED
-- Notes that all dependents of a task were looked at.
DELETE FROM unsettled WHERE queue_key = ?1 AND dependency = ?2;

-- name: DELETE_UNSETTLED_OF_QUEUE
-- Deletes what was left to be settled in a deleted queue.
DELETE FROM unsettled WHERE queue_key = ?1;
