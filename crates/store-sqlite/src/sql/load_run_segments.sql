-- Loads the segments of used run ids, in the order of their age.
SELECT segment, oldest, newest, state, pages, entries FROM run_segments ORDER BY newest, segment;
