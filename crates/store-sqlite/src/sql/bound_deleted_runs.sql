UPDATE deleted_runs SET kept_until = ?1 WHERE kept_until > ?1;
