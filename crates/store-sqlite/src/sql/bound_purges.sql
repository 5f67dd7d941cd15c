UPDATE purges SET kept_until = ?1 WHERE kept_until > ?1;
