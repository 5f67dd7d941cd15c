-- Lists all counts, for a check.
SELECT queue_key, routes, status, tasks, archived FROM tally;
