-- Forgets the run ids of all deleted tasks, before a transfer adds those of the other database.
DELETE FROM taskqueue.runs WHERE kept_until IS NOT NULL;
