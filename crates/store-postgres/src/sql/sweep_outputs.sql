-- Removes the output of tasks that do not exist, among the first $2 after the key $1, and gives the last key that was looked at:
-- servers of a version without output delete tasks and leave it. Its pieces are purged later.
WITH
    seen AS (SELECT task_key FROM taskqueue.outputs WHERE task_key > $1 ORDER BY task_key LIMIT $2),
    orphaned AS (
        DELETE FROM taskqueue.outputs
        WHERE task_key IN (
            SELECT seen.task_key
            FROM seen
            WHERE (SELECT tasks.task_key FROM taskqueue.tasks WHERE tasks.task_key = seen.task_key) IS NULL
        )
        RETURNING task_key
    ),
    noted AS (INSERT INTO taskqueue.output_purges (task_key) SELECT task_key FROM orphaned)
SELECT max(task_key) FROM seen;
