-- Adds a difference to the count of tasks with these routes and this status.
INSERT INTO tally (queue_key, routes, status, tasks, archived) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (queue_key, routes, status)
DO UPDATE SET tasks = tasks + excluded.tasks, archived = archived + excluded.archived;
