-- Takes a block of numbers for keys and for the pending order.
SELECT nextval('taskqueue.numbers') AS first_number;
