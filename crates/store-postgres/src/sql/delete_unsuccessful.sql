-- Removes tasks from those that ended without success.
DELETE FROM taskqueue.unsuccessful WHERE task_key = ANY($1);
