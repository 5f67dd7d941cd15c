-- Notes what a dependency is to a task.
INSERT INTO dependencies (queue_key, dependency, task_key, state) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (queue_key, dependency, task_key) DO UPDATE SET state = excluded.state WHERE state <> excluded.state;
