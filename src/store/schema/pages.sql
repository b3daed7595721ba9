-- Fetched pages as they came, for revalidation. `body` is zstd; each owner has copies of its own.
CREATE TABLE pages (
    owner TEXT NOT NULL,
    url TEXT NOT NULL,
    response TEXT NOT NULL,
    body BLOB NOT NULL,
    bytes INTEGER NOT NULL,
    fresh_until INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    PRIMARY KEY (owner, url)
);
CREATE INDEX pages_expires ON pages (expires);
