-- Whose entries smart_memory keeps, and how much of them. `number` names the tables of a tenant's words, which are
-- made when it stores its first entry: memory_words_N, memory_terms_N and the trigger memory_forget_N.
CREATE TABLE memory_tenants (
    number INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL UNIQUE,
    entries INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0
);
-- What it keeps. An entry is named by its key, or by the hash of its first content. `tags` has a space around each.
CREATE TABLE memory (
    entry INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES memory_tenants,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    key TEXT,
    content TEXT NOT NULL,
    sha256 BLOB NOT NULL,
    tags TEXT NOT NULL,
    source TEXT,
    version INTEGER NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    expires INTEGER,
    UNIQUE (tenant, namespace, id)
);
CREATE UNIQUE INDEX memory_key ON memory (tenant, namespace, key) WHERE key IS NOT NULL;
CREATE INDEX memory_content ON memory (tenant, namespace, sha256) WHERE key IS NULL;
CREATE INDEX memory_updated ON memory (tenant, namespace, updated);
CREATE INDEX memory_expires ON memory (expires) WHERE expires IS NOT NULL;
-- Some of the pairs of words of each entry without a key, by which one that is nearly the same is found.
CREATE TABLE memory_pairs (
    pair INTEGER NOT NULL,
    entry INTEGER NOT NULL REFERENCES memory ON DELETE CASCADE,
    PRIMARY KEY (pair, entry)
) WITHOUT ROWID;
CREATE INDEX memory_pairs_entry ON memory_pairs (entry);
CREATE TRIGGER memory_added AFTER INSERT ON memory BEGIN
    UPDATE memory_tenants SET entries = entries + 1, bytes = bytes + octet_length(new.content) WHERE number = new.tenant;
END;
CREATE TRIGGER memory_changed AFTER UPDATE OF content ON memory BEGIN
    UPDATE memory_tenants SET bytes = bytes + octet_length(new.content) - octet_length(old.content) WHERE number = new.tenant;
END;
CREATE TRIGGER memory_removed AFTER DELETE ON memory BEGIN
    UPDATE memory_tenants SET entries = entries - 1, bytes = bytes - octet_length(old.content) WHERE number = old.tenant;
END;
