-- Whether it is noted that a task has ended then.
SELECT 1 FROM ended WHERE queue_key = ?1 AND status = ?2 AND ended_at = ?3 AND task_key = ?4;
