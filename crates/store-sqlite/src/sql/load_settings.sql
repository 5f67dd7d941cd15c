-- Loads the settings of a queue, if it has other ones than the default.
SELECT settings FROM queue_settings WHERE queue_key = ?1;
