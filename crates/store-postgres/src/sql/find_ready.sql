-- Whether anything is claimable besides what this transaction has made something else of.
SELECT EXISTS (
    SELECT 1 FROM taskqueue.ready WHERE queue_key = $1 AND route = $2 AND task_key <> ALL ($3)
);
