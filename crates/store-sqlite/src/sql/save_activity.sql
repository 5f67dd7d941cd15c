-- Saves what a process has counted in a span, in place of what it saved before. Of a queue that does not exist nothing is saved.
INSERT INTO activity (queue_key, unit, start, process, activity)
SELECT queues.queue_key, ?2, ?3, ?4, ?5 FROM queues WHERE queues.queue_key = ?1
ON CONFLICT (queue_key, unit, start, process) DO UPDATE SET activity = excluded.activity;
