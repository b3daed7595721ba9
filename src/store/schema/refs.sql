-- Documents that tools hand out by reference. `body` is zstd.
CREATE TABLE refs (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    sha256 BLOB NOT NULL,
    body BLOB NOT NULL,
    bytes INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    UNIQUE (tenant, sha256)
);
CREATE INDEX refs_expires ON refs (expires);
