-- Forgets the tasks that ended first in a state, up to one of them.
DELETE FROM ended WHERE queue_key = ?1 AND status = ?2 AND (ended_at, task_key) <= (?3, ?4);
