-- Lists the tasks of a queue whose dependents are to be looked at again, for a transfer.
SELECT dependency FROM unsettled WHERE queue_key = ?1 ORDER BY dependency;
