-- Loads the settings of all queues that have any.
SELECT queue_key, settings FROM queue_settings;
