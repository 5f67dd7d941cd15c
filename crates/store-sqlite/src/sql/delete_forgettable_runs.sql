-- Forgets run ids of deleted tasks, up to this one and including it.
DELETE FROM deleted_runs WHERE (kept_until, run_id) <= (?1, ?2);
