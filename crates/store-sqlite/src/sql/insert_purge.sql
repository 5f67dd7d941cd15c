-- Records a deleted queue, so that its tasks are purged. Their run ids stay used until ?2.
INSERT INTO purges (queue_key, kept_until) VALUES (?1, ?2);
