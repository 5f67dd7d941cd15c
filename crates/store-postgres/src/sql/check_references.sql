-- Lists rows that belong to nothing, for a check: what is wrong, and the key of the row.
SELECT 'a task without a definition' AS what, tasks.task_key
FROM taskqueue.tasks
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.definitions WHERE definitions.task_key = tasks.task_key)
UNION ALL
SELECT 'a task of a queue that does not exist', tasks.task_key
FROM taskqueue.tasks
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.queues WHERE queues.queue_key = tasks.queue_key)
    AND NOT EXISTS (SELECT 1 FROM taskqueue.purges WHERE purges.queue_key = tasks.queue_key)
UNION ALL
SELECT 'a definition without a task', definitions.task_key
FROM taskqueue.definitions
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.tasks WHERE tasks.task_key = definitions.task_key)
UNION ALL
SELECT 'an outcome without a task', outcomes.task_key
FROM taskqueue.outcomes
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.tasks WHERE tasks.task_key = outcomes.task_key)
UNION ALL
SELECT 'output without a task', outputs.task_key
FROM taskqueue.outputs
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.tasks WHERE tasks.task_key = outputs.task_key)
UNION ALL
SELECT 'a piece of output that is neither kept nor being removed', output_pieces.task_key
FROM taskqueue.output_pieces
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.outputs WHERE outputs.task_key = output_pieces.task_key)
    AND NOT EXISTS (SELECT 1 FROM taskqueue.output_purges WHERE output_purges.task_key = output_pieces.task_key)
UNION ALL
SELECT 'an entry of the pending order of a queue that does not exist', ready.task_key
FROM taskqueue.ready
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.queues WHERE queues.queue_key = ready.queue_key)
    AND NOT EXISTS (SELECT 1 FROM taskqueue.purges WHERE purges.queue_key = ready.queue_key)
UNION ALL
SELECT 'a delayed task that does not exist', delayed.task_key
FROM taskqueue.delayed
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.tasks WHERE tasks.task_key = delayed.task_key)
    AND NOT EXISTS (SELECT 1 FROM taskqueue.purges WHERE purges.queue_key = delayed.queue_key)
UNION ALL
SELECT 'an observation of a queue that does not exist', observations.queue_key
FROM taskqueue.observations
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.queues WHERE queues.queue_key = observations.queue_key)
UNION ALL
SELECT 'a count of a queue that does not exist', tally.queue_key
FROM taskqueue.tally
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.queues WHERE queues.queue_key = tally.queue_key)
UNION ALL
SELECT 'a queue that exists and is being removed', purges.queue_key
FROM taskqueue.purges
WHERE EXISTS (SELECT 1 FROM taskqueue.queues WHERE queues.queue_key = purges.queue_key);
