-- What was used, for each account and window of it. Times are milliseconds since 1970.
CREATE TABLE ledger (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    window TEXT NOT NULL,
    unit TEXT NOT NULL,
    begins INTEGER NOT NULL,
    used INTEGER NOT NULL,
    PRIMARY KEY (scope, name, window, unit, begins)
) WITHOUT ROWID;
-- Answers given under an idempotency key.
CREATE TABLE answers (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    answer TEXT NOT NULL,
    expires INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX answers_expires ON answers (expires);
