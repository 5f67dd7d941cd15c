-- Loads how far the tasks of a queue were read.
SELECT after_created_at, after_id FROM ended_reads WHERE queue_key = ?1;
