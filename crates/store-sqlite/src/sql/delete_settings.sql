-- Deletes the settings of a queue, which then has the default.
DELETE FROM queue_settings WHERE queue_key = ?1;
