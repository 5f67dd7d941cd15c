-- Their places in `ready` are deleted by what is known of them.
WITH
    forgotten_runs AS (DELETE FROM taskqueue.runs WHERE task_key = ANY($1)),
    deleted_outcomes AS (DELETE FROM taskqueue.outcomes WHERE task_key = ANY($1)),
    deleted_definitions AS (DELETE FROM taskqueue.definitions WHERE task_key = ANY($1))
DELETE FROM taskqueue.tasks WHERE task_key = ANY($1);
