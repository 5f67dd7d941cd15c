-- Waits for a server that moves delayed tasks (begin_release.sql), and holds nothing afterwards.
WITH waited AS MATERIALIZED (SELECT pg_advisory_lock_shared(7405302117))
SELECT pg_advisory_unlock_shared(7405302117) FROM waited;
