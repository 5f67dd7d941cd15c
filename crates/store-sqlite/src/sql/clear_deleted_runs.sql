-- Forgets the run ids of all deleted tasks, before a transfer adds those of the other database.
DELETE FROM deleted_runs;
