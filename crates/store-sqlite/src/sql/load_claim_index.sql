-- What the writer keeps in memory, in one pass over the narrow table at start.
SELECT {claim_index_columns}
FROM tasks;
