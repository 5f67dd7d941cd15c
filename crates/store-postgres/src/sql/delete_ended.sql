-- Removes notes of ended tasks.
DELETE FROM taskqueue.ended
USING unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) AS noted (queue_key, status, ended_at, task_key)
WHERE ended.queue_key = noted.queue_key AND ended.status = noted.status AND ended.ended_at = noted.ended_at
    AND ended.task_key = noted.task_key;
