-- Tells claims that this transaction moves delayed tasks, so that they wait for its end (await_release.sql) instead of passing over
-- what it holds. Nobody else in this database may use the number.
SELECT pg_advisory_xact_lock(7405302117);
