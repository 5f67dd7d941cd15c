-- Loads args and metadata of tasks. The caller holds their queue for itself.
SELECT task_key, args, metadata
FROM taskqueue.definitions
WHERE task_key = ANY($1);
