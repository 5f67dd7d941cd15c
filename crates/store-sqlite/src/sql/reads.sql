-- Reads. The words in braces are filled in by `statements.rs`.

-- name: BEGIN_READ
-- Begins a snapshot: it is taken by the first statement that follows.
BEGIN DEFERRED;

-- name: END_READ
-- Ends a snapshot.
COMMIT;

-- name: CHECK
-- Reads one row, to see that the database answers.
SELECT count(*) FROM (SELECT 1 FROM queues LIMIT 1);

-- name: GET_TASK
-- Reads a task by the name of its queue and its id.
SELECT {task_columns}
FROM tasks
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.queue_key = (SELECT queues.queue_key FROM queues WHERE queues.name = ?1) AND tasks.id = ?2;

-- name: FIND_HEAD
-- Finds a task by its queue and id, without its JSON.
SELECT {head_columns}
FROM tasks
WHERE tasks.queue_key = ?1 AND tasks.id = ?2;

-- name: FIND_STATUS
-- Finds the state of a task by its key, if it belongs to the queue ?2.
SELECT status FROM tasks WHERE task_key = ?1 AND queue_key = ?2;

-- name: LIST_TASKS_BY_CREATION
-- Lists the tasks of a queue by creation, beyond the time ?2. For the first page the time lies before all tasks. One index gives
-- the order and finds the beginning, and no row is compared with it.
SELECT {listed_columns}
FROM tasks INDEXED BY tasks_by_creation
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.queue_key = ?1 AND tasks.created_at {after} ?2
ORDER BY tasks.created_at {direction}, tasks.id {direction};

-- name: LIST_TASKS_OF_ONE_TIME
-- Lists the tasks of a queue that were created at the time ?2, beyond the id ?3: what is left of the time at which the page before
-- ended.
SELECT {listed_columns}
FROM tasks INDEXED BY tasks_by_creation
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.queue_key = ?1 AND tasks.created_at = ?2 AND tasks.id {after} ?3
ORDER BY tasks.id {direction};

-- name: LIST_TASKS_BY_ID
-- Lists the tasks of a queue by id, after the position ?2. For the first page the position lies before all tasks.
-- One index gives the order and finds the position.
SELECT {listed_columns}
FROM tasks INDEXED BY tasks_by_id
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.queue_key = ?1 AND tasks.id {after} ?2
ORDER BY tasks.id {direction};

-- name: LIST_UNSUCCESSFUL
-- Lists the tasks of a queue with the state ?2, failed or cancelled, by creation, after the position (?3, ?4). For the first page
-- the position lies before all tasks. One index has only these tasks, gives the order and finds the position.
SELECT {task_columns}
FROM tasks INDEXED BY unsuccessful_tasks
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.queue_key = ?1 AND tasks.status = ?2 AND tasks.status IN ('failed', 'cancelled')
    AND (tasks.created_at, tasks.id) {after} (?3, ?4)
ORDER BY tasks.created_at {direction}, tasks.id {direction};

-- name: LIST_HEADS_BY_CREATION
-- Lists the tasks of a queue by creation, after the position (?2, ?3), without their JSON: for who passes over most of them.
SELECT {head_columns}
FROM tasks INDEXED BY tasks_by_creation
WHERE tasks.queue_key = ?1 AND (tasks.created_at, tasks.id) {after} (?2, ?3)
ORDER BY tasks.created_at {direction}, tasks.id {direction};

-- name: LIST_HEADS_BY_ID
-- Lists the tasks of a queue by id, after the position ?2, without their JSON: for who passes over most of them.
SELECT {head_columns}
FROM tasks INDEXED BY tasks_by_id
WHERE tasks.queue_key = ?1 AND tasks.id {after} ?2
ORDER BY tasks.id {direction};

-- name: VISIT_TASKS
-- Visits tasks of a queue, without their JSON. There are several ways to do it: a scan of the table visits the tasks of all
-- queues too; a walk along the index of the queue visits no other tasks, at twice the cost per task. Tasks of a state that few
-- tasks have are found by the index of that state, or by their key.
SELECT {head_columns}
FROM tasks {access}
WHERE tasks.queue_key = ?1{which};

-- name: VISIT_WHOLE_TASKS
-- Like VISIT_TASKS, with the JSON, for filters that read it. In table order, which is also the order of the joined tables, if
-- the table is scanned.
SELECT {task_columns}
FROM tasks {access}
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.queue_key = ?1{which};
