-- +goose Up

-- The W3C trace context of the claimer. NULL: none. What has another form is read as none.
ALTER TABLE effect_intents ADD COLUMN trace_parent TEXT;
CREATE TRIGGER effect_intents_trace_update BEFORE UPDATE OF trace_parent ON effect_intents
WHEN NEW.trace_parent IS NOT OLD.trace_parent
BEGIN
    SELECT RAISE(ABORT, 'effect_intents: trace_parent never changes');
END;

-- Bearer tokens of the API. Only digests: nobody who reads this table can use one.
CREATE TABLE api_tokens (
    id         TEXT NOT NULL PRIMARY KEY CHECK (length(id) = 36 AND id = lower(id)),
    name       TEXT NOT NULL CHECK (name <> ''),
    digest     TEXT NOT NULL UNIQUE CHECK (length(digest) = 64 AND NOT digest GLOB '*[^0-9a-f]*'),
    scopes     TEXT NOT NULL, -- a JSON array
    created_at TEXT NOT NULL,
    created_by TEXT NOT NULL,
    expires_at TEXT,
    revoked_at TEXT,
    revoked_by TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX api_tokens_name ON api_tokens (name) WHERE revoked_at IS NULL;
CREATE TRIGGER api_tokens_insert BEFORE INSERT ON api_tokens
WHEN EXISTS (SELECT 1 FROM api_tokens WHERE id = NEW.id OR digest = NEW.digest
             OR (name = NEW.name AND revoked_at IS NULL AND NEW.revoked_at IS NULL))
BEGIN
    SELECT RAISE(ABORT, 'api_tokens: there is such a token already; a token is never replaced');
END;
CREATE TRIGGER api_tokens_update BEFORE UPDATE ON api_tokens
WHEN (OLD.revoked_at IS NULL AND NEW.id = OLD.id AND NEW.name = OLD.name AND NEW.digest = OLD.digest AND NEW.scopes = OLD.scopes
      AND NEW.created_at = OLD.created_at AND NEW.created_by = OLD.created_by AND NEW.expires_at IS OLD.expires_at) IS NOT TRUE
BEGIN
    SELECT RAISE(ABORT, 'api_tokens: only revoked_at and revoked_by are written later, once');
END;
CREATE TRIGGER api_tokens_delete BEFORE DELETE ON api_tokens
BEGIN
    SELECT RAISE(ABORT, 'api_tokens: no token is deleted; revoke it');
END;

-- What was asked for through the API, and what came of it. Append only.
CREATE TABLE audit_log (
    id       TEXT NOT NULL PRIMARY KEY, -- time-ordered UUID
    at       TEXT NOT NULL,
    actor    TEXT NOT NULL,
    token_id TEXT NOT NULL DEFAULT '',
    action   TEXT NOT NULL CHECK (action <> ''),
    subject  TEXT NOT NULL DEFAULT '',
    detail   TEXT,
    result   TEXT NOT NULL CHECK (result IN ('asked', 'done', 'refused'))
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_log_at ON audit_log (at, id);
CREATE TRIGGER audit_log_insert BEFORE INSERT ON audit_log
WHEN EXISTS (SELECT 1 FROM audit_log WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'audit_log: append only');
END;
CREATE TRIGGER audit_log_update BEFORE UPDATE ON audit_log
BEGIN
    SELECT RAISE(ABORT, 'audit_log: append only');
END;
CREATE TRIGGER audit_log_delete BEFORE DELETE ON audit_log
BEGIN
    SELECT RAISE(ABORT, 'audit_log: append only');
END;
