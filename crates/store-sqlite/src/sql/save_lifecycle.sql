-- Saves what an action changes in the narrow row of a task.
UPDATE tasks SET
    status = ?2, attempt = ?3, pending_seq = ?4, last_route = ?5, updated_at = ?6, started_at = ?7, finished_at = ?8,
    run_id = ?9, lease_expires_at = ?10, finished_run_id = ?11, finished_run_end = ?12
WHERE task_key = ?1;
