-- All dependents of these tasks were looked at.
DELETE FROM taskqueue.unsettled WHERE unsettled_key = ANY($1);
