-- Loads what the claim index needs, in one pass over the narrow table at start.
SELECT {claim_index_columns}
FROM tasks;
