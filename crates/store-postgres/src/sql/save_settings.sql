-- Saves the settings of a queue $1 as JSON $2; and whether claims look at them before they pick tasks: $3.
UPDATE taskqueue.queues SET settings = $2, takes_turns = $3 WHERE queue_key = $1;
