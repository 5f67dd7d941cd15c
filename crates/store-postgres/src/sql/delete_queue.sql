-- Deletes a queue. Its tasks can no longer be reached and are purged later, some at a time. Their run ids stay used
-- until $2.
WITH
    deleted_observations AS (DELETE FROM taskqueue.observations WHERE queue_key = $1),
    deleted_tally AS (DELETE FROM taskqueue.tally WHERE queue_key = $1),
    noted AS (INSERT INTO taskqueue.purges (queue_key, kept_until) VALUES ($1, $2))
DELETE FROM taskqueue.queues WHERE queue_key = $1;
