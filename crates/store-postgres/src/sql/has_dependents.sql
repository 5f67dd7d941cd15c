-- Whether any task of a queue waits, or waited, for another one.
SELECT EXISTS (SELECT 1 FROM taskqueue.dependencies WHERE queue_key = $1);
