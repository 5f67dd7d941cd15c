-- Loads the run ids of tasks that were deleted lately.
SELECT run_id FROM deleted_runs WHERE kept_until >= ?1;
