-- Documents of the local search engine. `tenant` is "" for what the operator imported. `body` is zstd of `bytes`.
-- `key` is the same for all spellings of a URL.
CREATE TABLE documents (
    document INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    url TEXT NOT NULL,
    title TEXT NOT NULL,
    body BLOB NOT NULL,
    bytes INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    added INTEGER NOT NULL,
    UNIQUE (tenant, key)
);
-- Languages of a tenant's documents: queries are stemmed in each.
CREATE TABLE languages (
    tenant TEXT NOT NULL,
    language TEXT NOT NULL,
    PRIMARY KEY (tenant, language)
) WITHOUT ROWID;
-- The words of the operator's documents. The words of each tenant's own are in a table `terms_` and a hash, made when
-- first needed, because ranks come from statistics of a whole table and must not tell of other tenants. Words are
-- split and stemmed before they get here: this tokenizer takes only spaces between them.
CREATE VIRTUAL TABLE terms USING fts5 (
    title, body, content = '', contentless_delete = 1, tokenize = "ascii tokenchars '''.,:;_'"
);
