-- Finds the task of a queue that ended first in a state.
SELECT ended_at, task_key FROM ended WHERE queue_key = ?1 AND status = ?2 ORDER BY ended_at, task_key LIMIT 1;
