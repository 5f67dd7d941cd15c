-- Loads which tasks may be pending or running.
SELECT chunk, keys FROM living_tasks ORDER BY chunk;
