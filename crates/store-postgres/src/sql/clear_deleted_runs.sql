DELETE FROM taskqueue.runs WHERE kept_until IS NOT NULL;
