-- Forgets that a task has ended.
DELETE FROM ended WHERE queue_key = ?1 AND status = ?2 AND ended_at = ?3 AND task_key = ?4;
