-- The secret that all servers of this installation share (docs/decisions/0062). One row, which the first server writes that opens
-- the database.
CREATE TABLE taskqueue.installation_secret (
    one    smallint NOT NULL PRIMARY KEY CHECK (one = 1),
    secret bytea NOT NULL CHECK (length(secret) = 32)
);
