-- Lists what all processes counted of a queue in the spans of a unit that begin between ?3 and ?4, ?4 excluded.
SELECT start, process, activity
FROM activity
WHERE queue_key = ?1 AND unit = ?2 AND start >= ?3 AND start < ?4
ORDER BY start;
