-- Waits for a server that moves delayed tasks (begin_release.sql).
SELECT pg_advisory_xact_lock_shared(7405302117);
