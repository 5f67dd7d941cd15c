-- Finds a queue whose tasks are being read, and behind which one to go on.
SELECT queue_key, after_id FROM taskqueue.ended_readings ORDER BY queue_key LIMIT 1 FOR UPDATE SKIP LOCKED;
