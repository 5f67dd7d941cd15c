-- Notes behind which of its dependents to go on with a task.
UPDATE taskqueue.unsettled SET after_key = $2 WHERE unsettled_key = $1;
