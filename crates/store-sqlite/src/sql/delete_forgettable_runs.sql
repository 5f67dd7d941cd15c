-- Up to and with this one.
DELETE FROM deleted_runs WHERE (kept_until, run_id) <= (?1, ?2);
