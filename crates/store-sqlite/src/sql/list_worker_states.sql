-- Lists what the workers of a queue do for which route, as far as it is current.
SELECT route, status FROM observations WHERE queue_key = ?1 AND expires_at > ?2;
