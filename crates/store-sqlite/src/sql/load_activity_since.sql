-- Loads the time from which on activity is known.
SELECT since FROM activity_since WHERE one = 1;
