-- Documents that tools hand out by reference. `body` is zstd.
CREATE TABLE refs (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    sha256 BLOB NOT NULL,
    body BLOB NOT NULL,
    bytes INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, sha256)
);
CREATE INDEX refs_expires ON refs (expires);
