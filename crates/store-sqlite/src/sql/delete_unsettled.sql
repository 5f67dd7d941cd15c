-- Notes that all dependents of a task were looked at.
DELETE FROM unsettled WHERE queue_key = ?1 AND dependency = ?2;
