-- Lists what tasks of a queue wait for, ?2 pairs at most.
SELECT dependency FROM dependencies WHERE queue_key = ?1 LIMIT ?2;
