UPDATE definitions SET args = ?2, metadata = ?3 WHERE task_key = ?1;
