-- What each tenant keeps, in bytes as the file takes them, rather too many than too few: all of it, and what of it stays
-- until it is removed. The triggers keep both; `store::share` makes the rows, so that what belongs to no tenant counts
-- for none.
CREATE TABLE shares (
    tenant TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL,
    lasting INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX refs_ends ON refs (tenant, expires);
CREATE INDEX pages_ends ON pages (owner, expires);
-- Rows with their indexes and words; one of more than a page leaves part of its last page empty.
ALTER TABLE refs ADD COLUMN weight INTEGER AS (octet_length(body) + min(octet_length(body), 4096) + 1024);
ALTER TABLE pages ADD COLUMN weight INTEGER
    AS (octet_length(body) + min(octet_length(body), 4096) + 2 * octet_length(response) + 4 * octet_length(url) + 1024);
ALTER TABLE documents ADD COLUMN weight INTEGER
    AS (octet_length(body) + min(octet_length(body), 4096) + bytes + 4 * octet_length(url) + 2048);
ALTER TABLE memory ADD COLUMN weight INTEGER
    AS (3 * octet_length(content) + 2 * octet_length(tags) + coalesce(octet_length(source), 0) + 1024);
ALTER TABLE answers ADD COLUMN weight INTEGER AS (2 * octet_length(answer) + 2 * octet_length(key) + 512);
CREATE TRIGGER refs_share_added AFTER INSERT ON refs BEGIN
    UPDATE shares SET bytes = bytes + new.weight WHERE tenant = new.tenant;
END;
CREATE TRIGGER refs_share_removed AFTER DELETE ON refs BEGIN
    UPDATE shares SET bytes = bytes - old.weight WHERE tenant = old.tenant;
END;
CREATE TRIGGER pages_share_added AFTER INSERT ON pages BEGIN
    UPDATE shares SET bytes = bytes + new.weight WHERE tenant = new.owner;
END;
CREATE TRIGGER pages_share_removed AFTER DELETE ON pages BEGIN
    UPDATE shares SET bytes = bytes - old.weight WHERE tenant = old.owner;
END;
CREATE TRIGGER pages_share_changed AFTER UPDATE OF body, response ON pages BEGIN
    UPDATE shares SET bytes = bytes + new.weight - old.weight WHERE tenant = new.owner;
END;
CREATE TRIGGER documents_share_added AFTER INSERT ON documents BEGIN
    UPDATE shares SET bytes = bytes + new.weight, lasting = lasting + new.weight WHERE tenant = new.tenant;
END;
CREATE TRIGGER documents_share_removed AFTER DELETE ON documents BEGIN
    UPDATE shares SET bytes = bytes - old.weight, lasting = lasting - old.weight WHERE tenant = old.tenant;
END;
CREATE TRIGGER memory_share_added AFTER INSERT ON memory BEGIN
    UPDATE shares SET bytes = bytes + new.weight, lasting = lasting + new.weight WHERE tenant = (SELECT tenant FROM memory_tenants WHERE number = new.tenant);
END;
CREATE TRIGGER memory_share_removed AFTER DELETE ON memory BEGIN
    UPDATE shares SET bytes = bytes - old.weight, lasting = lasting - old.weight WHERE tenant = (SELECT tenant FROM memory_tenants WHERE number = old.tenant);
END;
CREATE TRIGGER memory_share_changed AFTER UPDATE OF content, tags, source ON memory BEGIN
    UPDATE shares SET bytes = bytes + new.weight - old.weight, lasting = lasting + new.weight - old.weight WHERE tenant = (SELECT tenant FROM memory_tenants WHERE number = new.tenant);
END;
CREATE TRIGGER answers_share_added AFTER INSERT ON answers BEGIN
    UPDATE shares SET bytes = bytes + new.weight, lasting = lasting + new.weight WHERE tenant = new.tenant;
END;
CREATE TRIGGER answers_share_removed AFTER DELETE ON answers BEGIN
    UPDATE shares SET bytes = bytes - old.weight, lasting = lasting - old.weight WHERE tenant = old.tenant;
END;
CREATE TRIGGER answers_share_changed AFTER UPDATE OF answer ON answers BEGIN
    UPDATE shares SET bytes = bytes + new.weight - old.weight, lasting = lasting + new.weight - old.weight WHERE tenant = new.tenant;
END;
-- What there was before.
INSERT INTO shares (tenant, bytes, lasting)
    SELECT tenant, 65536 + sum(weight), sum(weight * lasts) FROM (
        SELECT tenant, weight, 0 AS lasts FROM refs
        UNION ALL SELECT owner, weight, 0 FROM pages
        UNION ALL SELECT tenant, weight, 1 FROM documents WHERE tenant <> ''
        UNION ALL SELECT t.tenant, m.weight, 1 FROM memory m JOIN memory_tenants t ON t.number = m.tenant
        UNION ALL SELECT tenant, weight, 1 FROM answers
    ) GROUP BY tenant;
