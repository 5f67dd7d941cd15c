-- Saves the time from which on activity is known, unless there is one.
INSERT INTO activity_since (one, since) VALUES (1, ?1) ON CONFLICT (one) DO NOTHING;
