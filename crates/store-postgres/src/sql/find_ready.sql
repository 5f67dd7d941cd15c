-- Whether a task is claimable for a route, other than those that this transaction has changed. The keys are looked up in a hash
-- table, which a comparison with a parameter of an array type or a join in a writer's transaction would not make.
SELECT EXISTS (
    SELECT 1 FROM taskqueue.ready WHERE queue_key = $1 AND route = $2 AND task_key NOT IN (SELECT unnest($3))
);
