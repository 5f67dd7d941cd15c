-- Whether a task is claimable for a route, other than those that this transaction has changed.
SELECT EXISTS (
    SELECT 1 FROM taskqueue.ready WHERE queue_key = $1 AND route = $2 AND task_key <> ALL ($3)
);
