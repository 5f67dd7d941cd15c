-- Loads the queues whose tasks are being read because they got a retention.
SELECT queue_key FROM ended_reads;
