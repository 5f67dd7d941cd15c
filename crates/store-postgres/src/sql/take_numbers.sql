SELECT nextval('taskqueue.numbers');
