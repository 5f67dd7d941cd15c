-- Counts the tasks of a queue, and all tasks.
SELECT coalesce(sum(tasks) FILTER (WHERE queue_key = ?1), 0) AS own, coalesce(sum(tasks), 0) AS every FROM tally;
