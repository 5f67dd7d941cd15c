-- Ends a snapshot.
COMMIT;
