-- Lists the current observations of a queue after the id ?3, which is empty for the first page.
SELECT {observation_columns}
FROM observations
WHERE queue_key = ?1 AND expires_at > ?2 AND id > ?3
ORDER BY id;
