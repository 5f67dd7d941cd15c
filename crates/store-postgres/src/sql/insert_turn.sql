-- Adds the row that claims of a queue hold one after the other.
INSERT INTO taskqueue.claim_turns (queue_key) VALUES ($1) ON CONFLICT DO NOTHING;
