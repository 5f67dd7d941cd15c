-- Begins a snapshot: it is taken by the first statement that follows.
BEGIN DEFERRED;
