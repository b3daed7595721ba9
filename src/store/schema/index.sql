-- Documents of the local search engine. `tenant` is "" for what the operator imported. `body` is zstd.
CREATE TABLE documents (
    document INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    url TEXT NOT NULL,
    title TEXT NOT NULL,
    body BLOB NOT NULL,
    sha256 BLOB NOT NULL,
    added INTEGER NOT NULL,
    UNIQUE (tenant, url)
);
