-- What smart_memory keeps. An entry is named by its key, or by the hash of its content.
CREATE TABLE memory (
    entry INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    key TEXT,
    content TEXT NOT NULL,
    tags TEXT NOT NULL,
    source TEXT,
    version INTEGER NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    expires INTEGER,
    UNIQUE (tenant, namespace, id)
);
CREATE UNIQUE INDEX memory_key ON memory (tenant, namespace, key) WHERE key IS NOT NULL;
CREATE INDEX memory_expires ON memory (expires) WHERE expires IS NOT NULL;
