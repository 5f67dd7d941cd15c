-- Lists the settings of queues, and what is derived from them, for a check.
SELECT
    queues.queue_key, queues.name, queues.settings, queues.takes_turns,
    EXISTS (SELECT 1 FROM taskqueue.claim_turns WHERE claim_turns.queue_key = queues.queue_key) AS has_turn,
    ARRAY(
        SELECT retention.status FROM taskqueue.retention WHERE retention.queue_key = queues.queue_key ORDER BY retention.status
    ) AS limited_states
FROM taskqueue.queues;
