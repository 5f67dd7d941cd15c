-- Lists all tasks without their JSON, in one pass over the narrow table.
SELECT {claim_index_columns}
FROM tasks;
