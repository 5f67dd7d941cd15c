-- Locks the observations of workers in this order, those that exist. Several statements of a transaction change observations, each in
-- the order of the keys; two transactions that change the same workers by different statements would otherwise wait for each other.
SELECT 1
FROM unnest($1::bigint[], $2::text[]) AS named (queue_key, id)
CROSS JOIN LATERAL (
    SELECT 1
    FROM taskqueue.observations
    WHERE observations.queue_key = named.queue_key AND observations.id = named.id
    FOR UPDATE
) AS locked;
