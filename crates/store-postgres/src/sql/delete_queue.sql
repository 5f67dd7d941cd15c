-- The queue is gone at once; its tasks, which nobody can reach any more, are purged bit by bit.
WITH
    deleted_observations AS (DELETE FROM taskqueue.observations WHERE queue_key = $1),
    deleted_tally AS (DELETE FROM taskqueue.tally WHERE queue_key = $1),
    noted AS (INSERT INTO taskqueue.purges (queue_key) VALUES ($1))
DELETE FROM taskqueue.queues WHERE queue_key = $1;
