-- Lists where the pieces of the output of a task lie, for a check.
SELECT start, length(bytes) FROM output_pieces WHERE task_key = ?1 ORDER BY start;
