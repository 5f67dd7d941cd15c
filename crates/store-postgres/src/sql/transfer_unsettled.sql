-- Lists the tasks of a queue whose dependents are to be looked at again, for a transfer.
SELECT DISTINCT dependency FROM taskqueue.unsettled WHERE queue_key = $1 AND NOT was_missing ORDER BY dependency;
