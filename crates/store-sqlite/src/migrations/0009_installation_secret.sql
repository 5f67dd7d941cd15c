-- The secret that all servers of this installation share (docs/decisions/0062). One row, which the first server writes that opens
-- the file.
CREATE TABLE installation_secret (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    secret BLOB NOT NULL CHECK (length(secret) = 32)
) STRICT;
