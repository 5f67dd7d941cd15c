-- Makes all further numbers larger than $1.
SELECT setval('taskqueue.numbers', greatest(nextval('taskqueue.numbers'), $1));
