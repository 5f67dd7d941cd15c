-- Finds a deleted queue to purge, and until when the run ids of its tasks stay used.
SELECT queue_key, kept_until FROM taskqueue.purges LIMIT 1 FOR UPDATE SKIP LOCKED;
