-- Lists the queues in which dependents were left to be settled.
SELECT DISTINCT queue_key FROM unsettled;
