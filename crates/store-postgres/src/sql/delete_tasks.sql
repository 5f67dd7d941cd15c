-- Deletes tasks, except their rows in `ready`, which delete_ready removes. Their run ids stay used until $2.
WITH
    kept_runs AS (UPDATE taskqueue.runs SET kept_until = $2 WHERE task_key = ANY($1)),
    deleted_outcomes AS (DELETE FROM taskqueue.outcomes WHERE task_key = ANY($1)),
    deleted_definitions AS (DELETE FROM taskqueue.definitions WHERE task_key = ANY($1))
DELETE FROM taskqueue.tasks WHERE task_key = ANY($1);
