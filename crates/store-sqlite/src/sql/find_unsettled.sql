-- Finds a task whose dependents are to be looked at again, and behind which of them to go on.
SELECT queue_key, dependency, after_key FROM unsettled LIMIT 1;
