-- +goose Up

-- The W3C trace context of the claimer. NULL: none. What has another form is read as none.
ALTER TABLE effect_intents ADD COLUMN trace_parent text;
CREATE TRIGGER effect_intents_trace_unchanging BEFORE UPDATE OF trace_parent ON effect_intents FOR EACH ROW
    WHEN (OLD.trace_parent IS DISTINCT FROM NEW.trace_parent)
    EXECUTE FUNCTION ledger_unchanging();
ALTER TABLE effect_intents ENABLE ALWAYS TRIGGER effect_intents_trace_unchanging;

-- Bearer tokens of the API. Only digests: nobody who reads this table can use one.
CREATE TABLE api_tokens (
    id uuid PRIMARY KEY,
    name text COLLATE "C" NOT NULL CHECK (name <> ''),
    digest text COLLATE "C" NOT NULL CHECK (digest ~ '^[0-9a-f]{64}$'),
    scopes text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    revoked_by text NOT NULL DEFAULT '',
    CONSTRAINT api_tokens_digest UNIQUE (digest)
);
CREATE UNIQUE INDEX api_tokens_name ON api_tokens (name) WHERE revoked_at IS NULL;
CREATE TRIGGER api_tokens_unchanging BEFORE UPDATE ON api_tokens FOR EACH ROW
    WHEN (OLD.revoked_at IS NOT NULL OR OLD.id <> NEW.id OR OLD.name <> NEW.name OR OLD.digest <> NEW.digest OR OLD.scopes <> NEW.scopes
        OR OLD.created_at <> NEW.created_at OR OLD.created_by <> NEW.created_by OR OLD.expires_at IS DISTINCT FROM NEW.expires_at)
    EXECUTE FUNCTION ledger_unchanging();
CREATE TRIGGER api_tokens_kept BEFORE DELETE OR TRUNCATE ON api_tokens EXECUTE FUNCTION ledger_append_only();
ALTER TABLE api_tokens ENABLE ALWAYS TRIGGER api_tokens_unchanging;
ALTER TABLE api_tokens ENABLE ALWAYS TRIGGER api_tokens_kept;

-- What was asked for through the API, and what came of it. Append only.
CREATE TABLE audit_log (
    id uuid PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor text NOT NULL,
    token_id text NOT NULL DEFAULT '',
    action text NOT NULL CHECK (action <> ''),
    subject text NOT NULL DEFAULT '',
    detail json,
    result text NOT NULL CHECK (result IN ('asked', 'done', 'refused'))
);
CREATE INDEX audit_log_at ON audit_log (at, id);
CREATE TRIGGER audit_log_unchanging BEFORE UPDATE ON audit_log FOR EACH ROW EXECUTE FUNCTION ledger_append_only();
CREATE TRIGGER audit_log_kept BEFORE DELETE OR TRUNCATE ON audit_log EXECUTE FUNCTION ledger_append_only();
ALTER TABLE audit_log ENABLE ALWAYS TRIGGER audit_log_unchanging;
ALTER TABLE audit_log ENABLE ALWAYS TRIGGER audit_log_kept;

-- The order in which receipts are listed. issued_at will not do: a receipt is signed before its transaction commits, so one that commits
-- late would stand before a reader who has passed. issue is base + the transaction's number, and whoever reads knows which transactions
-- have ended. base is raised when a dump was restored on a server that counts from less. Receipts issued before this migration have 0.
ALTER TABLE receipts ADD COLUMN issue bigint NOT NULL DEFAULT 0;
DROP INDEX receipts_issued;
CREATE INDEX receipts_issue ON receipts (issue, id) WHERE NOT owed;
CREATE TABLE receipt_order (
    id int PRIMARY KEY CHECK (id = 1),
    base bigint NOT NULL
);
INSERT INTO receipt_order (id, base) VALUES (1, 0);
