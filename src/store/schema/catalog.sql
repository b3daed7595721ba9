-- What was last known of each upstream: its definitions as they came, one JSON object.
CREATE TABLE catalog (
    upstream TEXT PRIMARY KEY,
    origin TEXT NOT NULL,
    offers TEXT NOT NULL,
    saved INTEGER NOT NULL
) STRICT;
