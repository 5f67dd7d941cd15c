-- Adds a segment, or saves what has become of it.
INSERT INTO run_segments (segment, oldest, newest, state, pages, entries) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (segment) DO UPDATE SET state = excluded.state, pages = excluded.pages, entries = excluded.entries;
