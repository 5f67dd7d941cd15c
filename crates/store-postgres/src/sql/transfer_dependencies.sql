-- Lists what is noted of these dependencies of tasks, for a transfer.
SELECT dependencies.queue_key, dependencies.dependency, dependencies.task_key, dependencies.state, true AS is_there
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS named (queue_key, dependency, task_key)
JOIN taskqueue.dependencies
    ON dependencies.queue_key = named.queue_key AND dependencies.dependency = named.dependency
    AND dependencies.task_key = named.task_key;
