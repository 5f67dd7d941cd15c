-- Queues, their settings, and the secret of the installation.

-- name: FIND_QUEUE
-- Finds the key of a queue by its name.
SELECT queue_key FROM queues WHERE name = ?1;

-- name: HAS_QUEUE
-- Whether a queue has this key.
SELECT 1 FROM queues WHERE queue_key = ?1;

-- name: LOAD_QUEUES
-- Loads all queues at start, the oldest first.
SELECT queue_key, name FROM queues ORDER BY queue_key;

-- name: INSERT_QUEUE
-- Adds a queue.
INSERT INTO queues (name) VALUES (?1);

-- name: DELETE_QUEUE
-- Deletes a queue. Its tasks are purged later.
DELETE FROM queues WHERE queue_key = ?1;

-- name: LOAD_SETTINGS
-- Loads the settings of a queue, if it has other ones than the default.
SELECT settings FROM queue_settings WHERE queue_key = ?1;

-- name: LOAD_ALL_SETTINGS
-- Loads the settings of all queues that have any.
SELECT queue_key, settings FROM queue_settings;

-- name: SAVE_SETTINGS
-- Saves the settings of a queue.
INSERT INTO queue_settings (queue_key, settings) VALUES (?1, ?2)
ON CONFLICT (queue_key) DO UPDATE SET settings = excluded.settings;

-- name: DELETE_SETTINGS
-- Deletes the settings of a queue, which then has the default.
DELETE FROM queue_settings WHERE queue_key = ?1;

-- name: LOAD_INSTALLATION_SECRET
-- Loads the secret of the installation.
SELECT secret FROM installation_secret WHERE one = 1;

-- name: SAVE_INSTALLATION_SECRET
-- Saves the secret of the installation, unless there is one.
INSERT INTO installation_secret (one, secret) VALUES (1, ?1) ON CONFLICT (one) DO NOTHING;
