-- The counts of tasks by queue, routes and status.

-- name: ADD_TALLY
-- Adds a difference to the count of tasks with these routes and this status, which may not exist.
INSERT INTO tally (queue_key, routes, status, tasks, archived) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (queue_key, routes, status)
DO UPDATE SET tasks = tasks + excluded.tasks, archived = archived + excluded.archived;

-- name: CHANGE_TALLY
-- Adds a difference to a count that exists and stays above zero. Half the work of ADD_TALLY.
UPDATE tally SET tasks = tasks + ?4, archived = archived + ?5
WHERE queue_key = ?1 AND routes = ?2 AND status = ?3 AND tasks + ?4 > 0;

-- name: LIST_TALLY
-- Lists the counts of a queue.
SELECT routes, status, tasks, archived FROM tally WHERE queue_key = ?1;

-- name: COUNT_TALLY
-- Counts the tasks of a queue that have one of the states that the text ?2 names, archived ones if ?3. No row: no such queue.
SELECT (
    SELECT coalesce(sum(tally.tasks - iif(?3, 0, min(tally.archived, tally.tasks))), 0)
    FROM tally
    WHERE tally.queue_key = queues.queue_key AND instr(?2, tally.status) > 0
) AS tasks
FROM queues
WHERE queues.name = ?1;

-- name: TALLY_QUEUE
-- Counts the tasks of a queue, and the running ones among them.
SELECT coalesce(sum(tasks), 0) AS tasks, coalesce(sum(tasks) FILTER (WHERE status = 'running'), 0) AS running
FROM tally
WHERE queue_key = ?1;

-- name: LIST_WHOLE_TALLY
-- Sums the counts of every queue by status.
SELECT tally.queue_key, tally.status, sum(tally.tasks) AS tasks FROM tally GROUP BY tally.queue_key, tally.status;

-- name: COUNT_QUEUE_SHARE
-- Counts the tasks of a queue, and all tasks.
SELECT coalesce(sum(tasks) FILTER (WHERE queue_key = ?1), 0) AS own, coalesce(sum(tasks), 0) AS every FROM tally;

-- name: DELETE_EMPTIED_TALLY
-- Deletes a count that becomes zero by a difference.
DELETE FROM tally WHERE queue_key = ?1 AND routes = ?2 AND status = ?3 AND tasks + ?4 = 0 AND archived + ?5 = 0;

-- name: DELETE_TALLY
-- Deletes the counts of a deleted queue.
DELETE FROM tally WHERE queue_key = ?1;
