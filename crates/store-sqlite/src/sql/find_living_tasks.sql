-- Finds which tasks of a chunk may be pending or running.
SELECT keys FROM living_tasks WHERE chunk = ?1;
