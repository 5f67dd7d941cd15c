SELECT nextval('taskqueue.numbers') AS first_number;
