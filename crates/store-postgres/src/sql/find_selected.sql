-- Finds tasks of a queue with keys above $4 and up to $5, with the version of their row and the JSON that a filter reads:
-- definitions if $2, outcomes if $3. A condition takes the place of `true` (`dialect/order.rs`), and an order may follow.
SELECT {filtered_columns}, tasks.xmin::text::bigint AS version
FROM taskqueue.tasks
LEFT JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.queue_key = $1 AND tasks.task_key > $4 AND tasks.task_key <= $5 AND true
