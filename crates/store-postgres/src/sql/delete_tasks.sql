-- Deletes tasks, except their rows in `ready`, which delete_ready removes. Their run ids stay used until $2. The pieces of their
-- output are purged later, some at a time: there may be hundreds for each task.
WITH
    kept_runs AS (UPDATE taskqueue.runs SET kept_until = $2 WHERE task_key = ANY($1)),
    deleted_outcomes AS (DELETE FROM taskqueue.outcomes WHERE task_key = ANY($1)),
    deleted_definitions AS (DELETE FROM taskqueue.definitions WHERE task_key = ANY($1)),
    deleted_outputs AS (DELETE FROM taskqueue.outputs WHERE task_key = ANY($1) RETURNING task_key),
    noted AS (INSERT INTO taskqueue.output_purges (task_key) SELECT task_key FROM deleted_outputs)
DELETE FROM taskqueue.tasks WHERE task_key = ANY($1);
