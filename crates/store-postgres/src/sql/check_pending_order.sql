-- Lists where the pending order and the pending tasks of existing queues differ, for a check. Delayed tasks are in
-- it or among the delayed ones, tasks that wait for others in neither. A row of the delayed ones that is not true of its task is no
-- damage: it is removed when its time comes.
WITH
    expected AS (
        SELECT
            tasks.queue_key, tasks.priority, tasks.pending_seq, tasks.task_key,
            unnest(string_to_array(btrim(tasks.routes, '[]"'), '","')) COLLATE "C" AS route
        FROM taskqueue.tasks
        JOIN taskqueue.queues USING (queue_key)
        WHERE tasks.status = 'pending' AND tasks.unmet IS NULL AND NOT EXISTS (
            SELECT 1 FROM taskqueue.delayed
            WHERE delayed.queue_key = tasks.queue_key AND delayed.not_before = tasks.not_before
                AND delayed.task_key = tasks.task_key
        )
    ),
    found AS (
        SELECT ready.queue_key, ready.priority, ready.pending_seq, ready.task_key, ready.route
        FROM taskqueue.ready
        JOIN taskqueue.queues USING (queue_key)
    )
SELECT 'a pending task is not in the pending order' AS what, task_key
FROM (SELECT * FROM expected EXCEPT ALL SELECT * FROM found) AS missing
UNION ALL
SELECT 'the pending order has an entry that no pending task has', task_key
FROM (SELECT * FROM found EXCEPT ALL SELECT * FROM expected) AS extra;
