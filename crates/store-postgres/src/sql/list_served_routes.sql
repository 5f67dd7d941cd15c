-- Lists which of the routes $3 of a queue have a current observation.
SELECT DISTINCT route FROM taskqueue.observations WHERE queue_key = $1 AND expires_at > $2 AND route = ANY($3);
