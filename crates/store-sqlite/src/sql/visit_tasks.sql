-- Visits tasks of a queue, without their JSON. There are several ways to do it: a scan of the table visits the tasks of all
-- queues too; a walk along the index of the queue visits no other tasks, at twice the cost per task. Tasks of a state that few
-- tasks have are found by the index of that state, or by their key.
SELECT {head_columns}
FROM tasks {access}
WHERE tasks.queue_key = ?1{which};
