-- Queues: found, locked, made, deleted; their settings.

-- name: INSERT_QUEUES
-- Adds queues.
INSERT INTO taskqueue.queues (queue_key, name) SELECT * FROM unnest($1::bigint[], $2::text[]);

-- name: CHECK_QUEUES
-- Whether any of these queues exists.
SELECT EXISTS (SELECT 1 FROM taskqueue.queues WHERE queue_key = ANY($1::bigint[]));

-- name: FIND_QUEUE
-- Finds the key of a queue by its name.
SELECT queue_key FROM taskqueue.queues WHERE name = $1::text;

-- name: FIND_QUEUE_AND_TIME
-- Finds the key of a queue by its name, and the time of the service (table `clock`).
SELECT
    queues.queue_key,
    greatest(
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + clock.offset_micros, clock.last_scan_at
    ) AS now
FROM taskqueue.queues
CROSS JOIN taskqueue.clock
WHERE queues.name = $1::text;

-- name: LIST_QUEUE_KEYS
-- Lists all queues in the order of their creation.
SELECT queue_key, name FROM taskqueue.queues ORDER BY queue_key;

-- name: LOCK_QUEUES
-- Locks queues against deletion until the end of the transaction. Leaves out queues that another transaction holds for
-- itself or is about to (hold_queue).
SELECT queue_key, name, settings
FROM taskqueue.queues
WHERE name = ANY($1::text[]) AND held_until <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FOR KEY SHARE SKIP LOCKED;

-- name: LOCK_QUEUE_ALONE
-- Locks a queue for this transaction alone. Waits for the transactions that use it.
SELECT queue_key, name, settings FROM taskqueue.queues WHERE name = ANY($1::text[]) FOR UPDATE;

-- name: LOCK_QUEUES_BY_KEY
-- Locks queues like lock_queues. Leaves out queues that do not exist too.
SELECT queue_key, settings
FROM taskqueue.queues
WHERE queue_key = ANY($1::bigint[]) AND held_until <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FOR KEY SHARE SKIP LOCKED;

-- name: HOLD_QUEUE
-- Announces that a transaction needs a queue for itself, so that no other begins to use it for a moment. Without this,
-- transactions that overlap without a gap would make it wait for ever. It outlives the server that was killed after it.
UPDATE taskqueue.queues
SET held_until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $2::bigint
WHERE name = $1::text;

-- name: FREE_QUEUE
-- Ends the announcement of hold_queue.
UPDATE taskqueue.queues SET held_until = 0 WHERE name = $1::text;

-- name: DELETE_QUEUE
-- Deletes a queue. Its tasks can no longer be reached and are purged later, some at a time. Their run ids stay used
-- until $2.
WITH
    deleted_observations AS (DELETE FROM taskqueue.observations WHERE queue_key = $1::bigint),
    deleted_tally AS (DELETE FROM taskqueue.tally WHERE queue_key = $1),
    noted AS (INSERT INTO taskqueue.purges (queue_key, kept_until) VALUES ($1, $2::bigint))
DELETE FROM taskqueue.queues WHERE queue_key = $1;

-- name: LOAD_SETTINGS
-- Loads the settings of queues, for reads and for transactions that do not hold the queue. Null where they are the default.
SELECT queue_key, settings FROM taskqueue.queues WHERE queue_key = ANY($1::bigint[]);

-- name: GET_SETTINGS
-- Finds a queue by its name, with its settings. Null where they are the default.
SELECT queue_key, settings FROM taskqueue.queues WHERE name = $1::text;

-- name: SAVE_SETTINGS
-- Saves the settings of a queue $1 as JSON $2; and whether claims look at them before they pick tasks: $3.
UPDATE taskqueue.queues SET settings = $2::text, takes_turns = $3::boolean WHERE queue_key = $1::bigint;
