-- Notes tasks whose dependents are to be looked at again.
INSERT INTO taskqueue.unsettled (queue_key, dependency, was_missing)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::boolean[]);
