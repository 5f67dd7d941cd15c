-- All tasks of a queue were read, or it was deleted.
DELETE FROM ended_reads WHERE queue_key = ?1;
