-- Removes tasks from the running ones.
DELETE FROM taskqueue.running WHERE task_key = ANY($1);
