-- Tasks as the writer loads and saves them.

-- name: FIND_TASK
-- Finds the key of a task by its queue and id.
SELECT task_key FROM tasks WHERE queue_key = ?1 AND id = ?2;

-- name: LOAD_TASK
-- Loads a task by its key.
SELECT {task_columns}
FROM tasks
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.task_key = ?1;

-- name: LOAD_TASK_OF_QUEUE
-- Loads a task by its key, if it belongs to the queue ?2.
SELECT {task_columns}
FROM tasks
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.task_key = ?1 AND tasks.queue_key = ?2;

-- name: LOAD_HEAD
-- Loads a task without its JSON.
SELECT {head_columns}
FROM tasks
WHERE tasks.task_key = ?1;

-- name: LOAD_IDENTITY
-- Loads the identity that a task was created with.
SELECT identity FROM definitions WHERE task_key = ?1;

-- name: LOAD_DOCUMENTS
-- Loads args and metadata of a task.
SELECT documents FROM definitions WHERE task_key = ?1;

-- name: LOAD_OUTCOME
-- Loads what came out of a task.
SELECT outcome FROM outcomes WHERE task_key = ?1;

-- name: INSERT_TASK
-- Adds the narrow row of a new task, unless the queue has a task of this id.
INSERT INTO tasks (queue_key, id, created_at, status, packed, name, task_key) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (queue_key, id) DO NOTHING;

-- name: INSERT_DEFINITION
-- Adds the definition of a new task.
INSERT INTO definitions (task_key, identity, documents) VALUES (?1, ?2, ?3);

-- name: SAVE_HEAD
-- Saves what an action or an update changes in the narrow row of a task, except its name.
UPDATE tasks SET status = ?2, packed = ?3 WHERE task_key = ?1;

-- name: SAVE_HEAD_AND_OUTCOME_KEY
-- Like SAVE_HEAD, when the task has got an outcome or lost it.
UPDATE tasks SET status = ?2, packed = ?3, outcome_key = ?4 WHERE task_key = ?1;

-- name: SAVE_NAME
-- Saves the name of a task.
UPDATE tasks SET name = ?2 WHERE task_key = ?1;

-- name: SAVE_DOCUMENTS
-- Saves args and metadata of a task.
UPDATE definitions SET documents = ?2 WHERE task_key = ?1;

-- name: SAVE_OUTCOME
-- Saves what came out of a task.
INSERT INTO outcomes (task_key, outcome) VALUES (?1, ?2)
ON CONFLICT (task_key) DO UPDATE SET outcome = excluded.outcome;

-- name: DELETE_OUTCOME
-- Deletes the outcome of a deleted task.
DELETE FROM outcomes WHERE task_key = ?1;

-- name: DELETE_DEFINITION
-- Deletes the definition of a deleted task.
DELETE FROM definitions WHERE task_key = ?1;

-- name: DELETE_TASK
-- Deletes the narrow row of a task.
DELETE FROM tasks WHERE task_key = ?1;
