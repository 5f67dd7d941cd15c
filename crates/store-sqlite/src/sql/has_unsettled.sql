-- Whether dependents were left to be settled.
SELECT 1 FROM unsettled LIMIT 1;
