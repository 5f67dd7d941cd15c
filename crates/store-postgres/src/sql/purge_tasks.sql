-- Deletes some tasks of a deleted queue. Their run ids stay used until $3, and the pieces of their output are purged later.
WITH
    doomed AS (SELECT task_key FROM taskqueue.tasks WHERE queue_key = $1 LIMIT $2),
    kept_runs AS (UPDATE taskqueue.runs SET kept_until = $3 WHERE task_key IN (SELECT task_key FROM doomed)),
    deleted_unsuccessful AS (
        DELETE FROM taskqueue.unsuccessful WHERE task_key IN (SELECT task_key FROM doomed)
    ),
    deleted_outcomes AS (DELETE FROM taskqueue.outcomes WHERE task_key IN (SELECT task_key FROM doomed)),
    deleted_definitions AS (DELETE FROM taskqueue.definitions WHERE task_key IN (SELECT task_key FROM doomed)),
    deleted_outputs AS (
        DELETE FROM taskqueue.outputs WHERE task_key IN (SELECT task_key FROM doomed) RETURNING task_key
    ),
    noted AS (INSERT INTO taskqueue.output_purges (task_key) SELECT task_key FROM deleted_outputs)
DELETE FROM taskqueue.tasks WHERE task_key IN (SELECT task_key FROM doomed);
