-- +goose Up

-- The ledger of intents, for SQLite.
--
-- Times are ISO 8601 text in UTC with six digits after the point ('2026-01-02T03:04:05.678901Z'): they sort as text, strftime
-- and every client read them, and a person can. JSON is text. Booleans are 0 and 1. All tables are STRICT.
--
-- The triggers refuse every move that the protocol does not list, for whoever writes. On SQLite, INSERT OR REPLACE deletes without
-- firing delete triggers unless the connection asks for it, so rows are defended before the insert. A rule is written as
-- (what must hold) IS NOT TRUE, so that a NULL breaks it instead of slipping past.

-- Epochs: the lives of the ledger. horizon is when callers' retries of what an older state forgot must have ended; until
-- then new claims are probed before they are sent.
CREATE TABLE ledger_epochs (
    ledger_id TEXT    NOT NULL,
    epoch     INTEGER NOT NULL PRIMARY KEY CHECK (epoch > 0),
    opened_at TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')),
    horizon   TEXT
) STRICT;

-- The clock: one anchor for each boot of a host. The ledger's time is wall_us + (the host's boot-time clock - boot_ns), so that setting
-- the wall clock changes nothing. high_us is a time that no stored time is later than.
CREATE TABLE ledger_clock (
    boot_id TEXT    NOT NULL PRIMARY KEY,
    boot_ns INTEGER NOT NULL,
    wall_us INTEGER NOT NULL
) STRICT;
CREATE TABLE ledger_clock_high (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    high_us INTEGER NOT NULL
) STRICT;
INSERT INTO ledger_clock_high (id, high_us) VALUES (1, 0);

CREATE TABLE effect_intents (
    seq                   INTEGER PRIMARY KEY, -- claim order
    run_id                TEXT    NOT NULL CHECK (length(run_id) = 36 AND run_id = lower(run_id)),
    effect_key            TEXT    NOT NULL CHECK (instr(effect_key, ':') > 1 AND length(CAST(effect_key AS BLOB)) <= 512),
    run_epoch             INTEGER,
    state                 TEXT    NOT NULL DEFAULT 'intent' CHECK (state IN ('intent', 'dispatched', 'committed', 'abandoned')),
    kind                  TEXT    NOT NULL DEFAULT '',
    channel               TEXT    NOT NULL CHECK (channel <> ''),
    payload_digest        TEXT    NOT NULL CHECK (length(payload_digest) = 64 AND NOT payload_digest GLOB '*[^0-9a-f]*'),
    fence_owner           TEXT    NOT NULL DEFAULT '',
    fence_epoch           INTEGER NOT NULL DEFAULT 0,
    fence_expires_at      TEXT,
    ledger_epoch          INTEGER NOT NULL DEFAULT 0,
    probing               INTEGER NOT NULL DEFAULT 0 CHECK (probing IN (0, 1)),
    probe_first           INTEGER NOT NULL DEFAULT 0 CHECK (probe_first IN (0, 1)),
    send_started_at       TEXT,
    first_sent_at         TEXT,
    last_possible_send    TEXT,
    may_have_taken_effect INTEGER NOT NULL DEFAULT 0 CHECK (may_have_taken_effect = (doubtful_attempts <> '[]')),
    doubtful_attempts     TEXT    NOT NULL DEFAULT '[]',
    external_ref          TEXT,
    late_ref              TEXT,
    starts                INTEGER NOT NULL DEFAULT 0,
    attempts              INTEGER NOT NULL DEFAULT 0,
    last_error            TEXT    NOT NULL DEFAULT '',
    lane                  TEXT    CHECK (lane <> ''),
    lane_position         INTEGER,
    lane_turn_ended       INTEGER NOT NULL DEFAULT 0 CHECK (lane_turn_ended IN (0, 1)),
    due_at                TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')),
    expires_at            TEXT,
    cancel_requested_at   TEXT,
    cancel_reason         TEXT    NOT NULL DEFAULT '',
    accepted_at           TEXT,
    probe_at              TEXT,
    probes                INTEGER NOT NULL DEFAULT 0,
    unknowns              INTEGER NOT NULL DEFAULT 0,
    absent_since          TEXT,
    held_at               TEXT,
    hold_reason           TEXT    NOT NULL DEFAULT '',
    abandoned_as          TEXT    NOT NULL DEFAULT '' CHECK (abandoned_as IN ('', 'never_sent', 'refused', 'failed_outside', 'unknown')),
    abandon_reason        TEXT    NOT NULL DEFAULT '',
    established           TEXT    NOT NULL DEFAULT '',
    decided_by            TEXT    NOT NULL DEFAULT '',
    proof                 TEXT    NOT NULL DEFAULT '',
    approval              TEXT,
    sheet                 TEXT,
    created_at            TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')),
    committed_at          TEXT,
    payload               ANY     NOT NULL CHECK (typeof(payload) IN ('blob', 'text')), -- last, so that no other column is read through it
    UNIQUE (run_id, effect_key)
) STRICT;
CREATE UNIQUE INDEX effect_intents_lane ON effect_intents (lane, lane_position) WHERE lane IS NOT NULL;
CREATE INDEX effect_intents_live ON effect_intents (seq) WHERE state IN ('intent', 'dispatched');

-- Intents that have ended, counted, so that statistics read only what lives.
CREATE TABLE intent_counts (
    state TEXT    NOT NULL PRIMARY KEY,
    n     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO intent_counts (state, n) VALUES ('committed', 0), ('abandoned', 0);

CREATE TABLE effect_tokens (
    seq             INTEGER PRIMARY KEY,
    run_id          TEXT    NOT NULL,
    effect_key      TEXT    NOT NULL,
    version         INTEGER NOT NULL CHECK (version > 0),
    channel         TEXT    NOT NULL,
    digest          TEXT    NOT NULL,
    hint            TEXT,
    life_us         INTEGER NOT NULL DEFAULT 0,
    excludes_earlier INTEGER NOT NULL DEFAULT 0 CHECK (excludes_earlier IN (0, 1)),
    lane_number     INTEGER NOT NULL DEFAULT 0,
    made_at         TEXT    NOT NULL,
    dead_at         TEXT,
    token           BLOB    NOT NULL,
    UNIQUE (run_id, effect_key, version),
    UNIQUE (channel, digest)
) STRICT;

-- A lane has two rows: lane_order gives positions out, lanes says whose turn it is and holds the last number of its sequence.
CREATE TABLE lane_order (
    lane TEXT    NOT NULL PRIMARY KEY,
    next INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE lanes (
    lane   TEXT    NOT NULL PRIMARY KEY,
    turn   INTEGER NOT NULL DEFAULT 1,
    number INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Hints: what to look at, and when. effect_intents decides; this table can be emptied and is filled again by the scan.
CREATE TABLE dispatch_queue (
    seq          INTEGER PRIMARY KEY,
    run_id       TEXT    NOT NULL,
    effect_key   TEXT    NOT NULL,
    channel      TEXT    NOT NULL,
    phase        TEXT    NOT NULL CHECK (phase IN ('send', 'look')),
    due_at       TEXT    NOT NULL,
    lane         TEXT,
    turn_waiting INTEGER NOT NULL DEFAULT 0 CHECK (turn_waiting IN (0, 1)),
    UNIQUE (run_id, effect_key)
) STRICT;
CREATE INDEX dispatch_queue_due ON dispatch_queue (channel, phase, due_at, seq) WHERE turn_waiting = 0;

CREATE TABLE outbox_dispatch_log (
    id         TEXT    NOT NULL PRIMARY KEY, -- time-ordered UUID
    run_id     TEXT    NOT NULL,
    effect_key TEXT    NOT NULL,
    attempt    INTEGER NOT NULL,
    outcome    TEXT    NOT NULL,
    at         TEXT    NOT NULL,
    detail     TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX outbox_dispatch_log_intent ON outbox_dispatch_log (run_id, effect_key);

-- Late evidence. No foreign key: it must fit for a row that is lost.
CREATE TABLE late_evidence (
    id           TEXT    NOT NULL PRIMARY KEY,
    run_id       TEXT    NOT NULL,
    effect_key   TEXT    NOT NULL,
    ledger_epoch INTEGER NOT NULL,
    fence_epoch  INTEGER NOT NULL,
    fence_owner  TEXT    NOT NULL,
    attempt      INTEGER NOT NULL,
    outcome      TEXT    NOT NULL CHECK (outcome IN ('sent', 'not_sent')),
    evidence     TEXT,
    reason       TEXT    NOT NULL DEFAULT '',
    at           TEXT    NOT NULL,
    used_at      TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX late_evidence_intent ON late_evidence (run_id, effect_key);

CREATE TABLE evidence_ids (
    channel     TEXT NOT NULL,
    evidence_id TEXT NOT NULL,
    run_id      TEXT NOT NULL,
    effect_key  TEXT NOT NULL,
    PRIMARY KEY (channel, evidence_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE approvals_used (
    reference  TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    effect_key TEXT NOT NULL,
    used_at    TEXT NOT NULL,
    PRIMARY KEY (reference, run_id, effect_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE agent_runs (
    id               TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 36 AND id = lower(id)),
    status           TEXT    NOT NULL DEFAULT 'ready' CHECK (status IN
                     ('ready', 'leased', 'running', 'completed', 'failed', 'cancelled', 'quarantined')),
    lease_owner      TEXT    NOT NULL DEFAULT '',
    lease_epoch      INTEGER NOT NULL DEFAULT 0,
    lease_expires_at TEXT,
    retries          INTEGER NOT NULL DEFAULT 0,
    idempotency_key  TEXT    UNIQUE,
    created_at       TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')),
    updated_at       TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%f000Z', 'now'))
) STRICT, WITHOUT ROWID;
CREATE INDEX agent_runs_leased ON agent_runs (lease_expires_at) WHERE status IN ('leased', 'running');

CREATE TABLE channels (
    name              TEXT    NOT NULL PRIMARY KEY,
    kind              TEXT    NOT NULL,
    sheet             TEXT    NOT NULL,
    flag              TEXT    NOT NULL DEFAULT 'on' CHECK (flag IN ('off', 'paused', 'shadow', 'on')),
    paused            INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    pause_reason      TEXT    NOT NULL DEFAULT '',
    approval_required INTEGER NOT NULL DEFAULT 0 CHECK (approval_required IN (0, 1)),
    rate_per_minute   INTEGER NOT NULL DEFAULT 0,
    rate_left         REAL    NOT NULL DEFAULT 0, -- sends that may still go at rate_at
    rate_at           TEXT,
    updated_at        TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE engine_instances (
    id         TEXT    NOT NULL PRIMARY KEY,
    host       TEXT    NOT NULL DEFAULT '',
    process    INTEGER NOT NULL DEFAULT 0,
    version    TEXT    NOT NULL DEFAULT '',
    started_at TEXT,
    last_seen  TEXT    NOT NULL,
    stopped_at TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE receipts (
    seq        INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    run_id     TEXT    NOT NULL,
    effect_key TEXT    NOT NULL,
    outcome    TEXT    NOT NULL,
    issue      INTEGER, -- order of issue; NULL while owed
    issued_at  TEXT,
    digest     TEXT    NOT NULL DEFAULT '',
    owed       INTEGER NOT NULL DEFAULT 0 CHECK (owed IN (0, 1)),
    reason     TEXT    NOT NULL DEFAULT '',
    effect     TEXT, -- what an owed receipt will say
    envelope   BLOB,
    CHECK (owed = 1 OR (envelope IS NOT NULL AND issue IS NOT NULL))
) STRICT;
CREATE INDEX receipts_intent ON receipts (run_id, effect_key);
CREATE UNIQUE INDEX receipts_issue ON receipts (issue) WHERE issue IS NOT NULL;
CREATE INDEX receipts_owed ON receipts (seq) WHERE owed = 1;

-- effect_intents: what may be inserted.

-- Before the insert, because INSERT OR REPLACE would have deleted the row already afterwards. A claim of a key that is there with the
-- same digest is ignored, which is what ON CONFLICT DO NOTHING wants and what OR REPLACE must get; with another digest it is a
-- conflict, however it is written.
CREATE TRIGGER effect_intents_before_insert BEFORE INSERT ON effect_intents
BEGIN
    SELECT CASE
        WHEN NEW.lane_position IS NOT NULL
            THEN RAISE(ABORT, 'effect_intents: lane_position is given by the ledger; leave it out')
        WHEN NEW.seq <> -1
            THEN RAISE(ABORT, 'effect_intents: seq is given by the ledger; leave it out')
        WHEN (SELECT payload_digest FROM effect_intents WHERE run_id = NEW.run_id AND effect_key = NEW.effect_key) = NEW.payload_digest
            THEN RAISE(IGNORE)
        WHEN EXISTS (SELECT 1 FROM effect_intents WHERE run_id = NEW.run_id AND effect_key = NEW.effect_key)
            THEN RAISE(ABORT, 'effect_intents: key conflict: the key is claimed already with another payload; one key names one effect')
    END;
END;

CREATE TRIGGER effect_intents_after_insert AFTER INSERT ON effect_intents
BEGIN
    SELECT CASE
        WHEN (NEW.seq > 0) IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: seq is given by the ledger; leave it out')
        WHEN (NEW.state = 'intent' AND NEW.fence_owner = '' AND NEW.fence_epoch = 0 AND NEW.fence_expires_at IS NULL
              AND NEW.ledger_epoch = 0 AND NEW.probing = 0 AND NEW.send_started_at IS NULL AND NEW.first_sent_at IS NULL
              AND NEW.last_possible_send IS NULL AND NEW.may_have_taken_effect = 0 AND NEW.external_ref IS NULL AND NEW.late_ref IS NULL
              AND NEW.starts = 0 AND NEW.attempts = 0 AND NEW.lane_turn_ended = 0 AND NEW.accepted_at IS NULL AND NEW.held_at IS NULL
              AND NEW.abandoned_as = '' AND NEW.established = '' AND NEW.decided_by = '' AND NEW.proof = '' AND NEW.committed_at IS NULL
              AND NEW.sheet IS NULL AND NEW.probes = 0 AND NEW.cancel_requested_at IS NULL) IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: only a new intent may be inserted: state intent, without fence, stamp or evidence')
        WHEN (NEW.due_at GLOB '????-??-??T??:??:??.??????Z' AND NEW.created_at GLOB '????-??-??T??:??:??.??????Z'
              AND (NEW.expires_at IS NULL OR NEW.expires_at GLOB '????-??-??T??:??:??.??????Z')) IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: write times as strftime(''%Y-%m-%dT%H:%M:%f000Z'', …) does')
        WHEN EXISTS (SELECT 1 FROM agent_runs WHERE id = NEW.run_id AND lease_owner <> '' AND status IN ('leased', 'running')
                     AND lease_epoch IS NOT NEW.run_epoch)
            THEN RAISE(ABORT, 'effect_intents: the run is leased; a claim for it needs run_epoch = its lease_epoch')
        WHEN NEW.approval IS NOT NULL AND (json_extract(NEW.approval, '$.reference') <> '') IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: the approval names no reference')
        WHEN NEW.approval IS NOT NULL AND (SELECT count(*) FROM approvals_used WHERE reference = json_extract(NEW.approval, '$.reference'))
             >= max(1, coalesce(json_extract(NEW.approval, '$.count'), 1))
            THEN RAISE(ABORT, 'effect_intents: the approval has been used already; ask for a new one')
    END;
    INSERT INTO approvals_used (reference, run_id, effect_key, used_at)
        SELECT json_extract(NEW.approval, '$.reference'), NEW.run_id, NEW.effect_key, NEW.created_at WHERE NEW.approval IS NOT NULL;
    INSERT INTO lane_order (lane, next)
        SELECT NEW.lane, 1 WHERE NEW.lane IS NOT NULL AND NOT EXISTS (SELECT 1 FROM lane_order WHERE lane = NEW.lane);
    INSERT INTO lanes (lane)
        SELECT NEW.lane WHERE NEW.lane IS NOT NULL AND NOT EXISTS (SELECT 1 FROM lanes WHERE lane = NEW.lane);
    UPDATE effect_intents SET
        lane_position = (SELECT next FROM lane_order WHERE lane = NEW.lane),
        kind = CASE WHEN NEW.kind <> '' THEN NEW.kind
                    WHEN NEW.effect_key LIKE 'shadow:_%:%' THEN substr(substr(NEW.effect_key, 8), 1, instr(substr(NEW.effect_key, 8), ':') - 1)
                    ELSE substr(NEW.effect_key, 1, instr(NEW.effect_key, ':') - 1) END,
        probe_first = max(NEW.probe_first, coalesce((SELECT horizon > NEW.created_at FROM ledger_epochs ORDER BY epoch DESC LIMIT 1), 0))
        WHERE seq = NEW.seq AND (NEW.lane IS NOT NULL OR NEW.kind = ''
              OR (SELECT horizon > NEW.created_at FROM ledger_epochs ORDER BY epoch DESC LIMIT 1));
    UPDATE lane_order SET next = next + 1 WHERE lane = NEW.lane;
    INSERT OR REPLACE INTO dispatch_queue (run_id, effect_key, channel, phase, due_at, lane, turn_waiting)
        VALUES (NEW.run_id, NEW.effect_key, NEW.channel, 'send', NEW.due_at, NEW.lane,
                coalesce((SELECT turn FROM lanes WHERE lane = NEW.lane) <> (SELECT next - 1 FROM lane_order WHERE lane = NEW.lane), 0));
END;

-- effect_intents: which moves there are.
CREATE TRIGGER effect_intents_update BEFORE UPDATE ON effect_intents
BEGIN
    SELECT CASE
        WHEN (NEW.seq = OLD.seq AND NEW.run_id = OLD.run_id AND NEW.effect_key = OLD.effect_key AND NEW.channel = OLD.channel
              AND (NEW.kind = OLD.kind OR (OLD.kind = '' AND NEW.kind <> '')) AND NEW.payload_digest = OLD.payload_digest
              AND NEW.payload IS OLD.payload AND NEW.approval IS OLD.approval AND NEW.lane IS OLD.lane
              AND (NEW.lane_position IS OLD.lane_position OR (OLD.lane_position IS NULL AND OLD.lane IS NOT NULL AND OLD.fence_epoch = 0))
              AND NEW.created_at = OLD.created_at AND NEW.run_epoch IS OLD.run_epoch) IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: key, channel, kind, payload, digest, approval, lane and time of claim never change')
        WHEN OLD.state IN ('committed', 'abandoned')
             AND (NEW.state = OLD.state AND NEW.fence_owner = OLD.fence_owner AND NEW.fence_epoch = OLD.fence_epoch
                  AND NEW.fence_expires_at IS OLD.fence_expires_at AND NEW.ledger_epoch = OLD.ledger_epoch
                  AND NEW.probing = OLD.probing AND NEW.probe_first = OLD.probe_first
                  AND NEW.send_started_at IS OLD.send_started_at AND NEW.first_sent_at IS OLD.first_sent_at
                  AND NEW.last_possible_send IS OLD.last_possible_send AND NEW.doubtful_attempts = OLD.doubtful_attempts
                  AND NEW.may_have_taken_effect = OLD.may_have_taken_effect AND NEW.external_ref IS OLD.external_ref
                  AND (NEW.late_ref IS OLD.late_ref OR OLD.late_ref IS NULL)
                  AND NEW.starts = OLD.starts AND NEW.attempts = OLD.attempts AND NEW.last_error = OLD.last_error
                  AND NEW.lane_turn_ended = OLD.lane_turn_ended AND NEW.due_at = OLD.due_at AND NEW.expires_at IS OLD.expires_at
                  AND NEW.cancel_requested_at IS OLD.cancel_requested_at AND NEW.cancel_reason = OLD.cancel_reason
                  AND NEW.accepted_at IS OLD.accepted_at AND NEW.probe_at IS OLD.probe_at AND NEW.probes = OLD.probes
                  AND NEW.unknowns = OLD.unknowns AND NEW.absent_since IS OLD.absent_since AND NEW.held_at IS OLD.held_at
                  AND NEW.hold_reason = OLD.hold_reason AND NEW.abandoned_as = OLD.abandoned_as
                  AND NEW.abandon_reason = OLD.abandon_reason AND NEW.established = OLD.established
                  AND NEW.decided_by = OLD.decided_by AND NEW.sheet IS OLD.sheet AND NEW.committed_at IS OLD.committed_at) IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: an intent that has ended moves no more; only late_ref is filled, once')
        WHEN OLD.state NOT IN ('committed', 'abandoned') AND NEW.late_ref IS NOT NULL
            THEN RAISE(ABORT, 'effect_intents: late_ref belongs to an intent that has ended')
        WHEN ((OLD.state = 'intent' AND NEW.state IN ('intent', 'dispatched', 'abandoned'))
              OR (OLD.state = 'dispatched' AND NEW.state IN ('dispatched', 'intent', 'committed', 'abandoned'))
              OR OLD.state = NEW.state) IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: there is no such move')
        WHEN (NEW.fence_epoch >= OLD.fence_epoch AND NEW.starts >= OLD.starts AND NEW.attempts >= OLD.attempts
              AND NEW.ledger_epoch >= OLD.ledger_epoch) IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: fence numbers, epochs, starts and attempts only grow')
        WHEN (OLD.last_possible_send IS NULL OR NEW.last_possible_send >= OLD.last_possible_send) IS NOT TRUE
             OR (OLD.first_sent_at IS NULL OR NEW.first_sent_at = OLD.first_sent_at) IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: the last possible send is never moved earlier, nor is the first one forgotten')
        WHEN (NEW.probing IN (0, 1) AND NEW.probe_first IN (0, 1) AND NEW.may_have_taken_effect IN (0, 1) AND NEW.doubtful_attempts LIKE '[%]'
              AND NEW.lane_turn_ended IN (0, 1) AND NEW.probes >= 0 AND NEW.unknowns >= 0 AND NEW.fence_owner IS NOT NULL
              AND NEW.due_at IS NOT NULL
              AND NEW.proof IN ('', 'no_stamp', 'not_sent', 'absent_for_good', 'replay_safe', 'resend', 'person') AND NEW.abandoned_as IS NOT NULL) IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: a column was set to what it cannot hold')
        WHEN OLD.state = 'intent' AND NEW.state = 'dispatched' AND NEW.fence_epoch <= OLD.fence_epoch
            THEN RAISE(ABORT, 'effect_intents: a fence needs a new number')
        WHEN NEW.state = 'intent' AND NEW.send_started_at IS NOT NULL
            THEN RAISE(ABORT, 'effect_intents: only a dispatched intent is stamped')
        WHEN OLD.state = 'dispatched' AND NEW.state = 'intent' AND NEW.fence_epoch <= OLD.fence_epoch
            THEN RAISE(ABORT, 'effect_intents: a reopen needs a new number')
        WHEN OLD.state = 'dispatched' AND NEW.state = 'intent' AND OLD.send_started_at IS NOT NULL
             AND (NEW.proof IN ('not_sent', 'absent_for_good', 'person')
                  OR (NEW.proof IN ('replay_safe', 'resend') AND NEW.may_have_taken_effect = 1)) IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: a stamped intent is reopened only with its proof, and without one its doubt stays')
        WHEN OLD.doubtful_attempts <> NEW.doubtful_attempts
             AND EXISTS (SELECT value FROM json_each(OLD.doubtful_attempts) EXCEPT SELECT value FROM json_each(NEW.doubtful_attempts))
             AND (NEW.proof IN ('absent_for_good', 'person')
                  OR EXISTS (SELECT 1 FROM late_evidence WHERE run_id = OLD.run_id AND effect_key = OLD.effect_key
                             AND outcome = 'not_sent')) IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: only a finding for all versions, late evidence, or a person clears a doubt')
        WHEN OLD.state = 'dispatched' AND NEW.state = 'dispatched' AND OLD.send_started_at IS NOT NULL
             AND NEW.send_started_at IS NOT OLD.send_started_at
             AND (NEW.send_started_at IS NULL AND (NEW.proof = 'not_sent'
                  OR EXISTS (SELECT 1 FROM late_evidence WHERE run_id = OLD.run_id AND effect_key = OLD.effect_key
                             AND outcome = 'not_sent'))) IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: a stamp stays while the intent is dispatched, unless its attempt is proven not sent')
        WHEN NEW.state = 'committed'
             AND (NEW.external_ref IS NOT NULL AND NEW.committed_at IS NOT NULL AND NEW.established <> '' AND NEW.abandoned_as = '') IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: a commit needs evidence (external_ref), established and committed_at')
        WHEN NEW.state = 'abandoned' AND OLD.send_started_at IS NOT NULL AND NEW.send_started_at IS NULL
             AND NEW.proof NOT IN ('not_sent', 'absent_for_good', 'person')
            THEN RAISE(ABORT, 'effect_intents: there is a stamp, and no proof that nothing was sent')
        WHEN OLD.state = 'intent' AND NEW.state = 'abandoned' AND OLD.may_have_taken_effect <> 0
            THEN RAISE(ABORT, 'effect_intents: an intent in doubt is found out first; it cannot be abandoned unsent')
        WHEN NEW.state = 'abandoned' AND (NEW.abandoned_as <> '' AND NEW.committed_at IS NOT NULL) IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: an abandoned intent says what it is abandoned as, and when')
        WHEN NEW.state = 'abandoned' AND NEW.abandoned_as IN ('never_sent', 'refused')
             AND (NEW.may_have_taken_effect = 0 AND NEW.send_started_at IS NULL) IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: with doubt an intent can only be abandoned as unknown')
        WHEN NEW.state = 'abandoned' AND NEW.abandoned_as = 'failed_outside' AND NEW.external_ref IS NULL
            THEN RAISE(ABORT, 'effect_intents: failed outside needs evidence')
        WHEN NEW.state IN ('intent', 'dispatched') AND (NEW.abandoned_as = '' AND NEW.committed_at IS NULL) IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: an intent that has not ended has no end')
    END;
END;

CREATE TRIGGER effect_intents_ended AFTER UPDATE OF state ON effect_intents
WHEN NEW.state IN ('committed', 'abandoned') AND OLD.state NOT IN ('committed', 'abandoned')
BEGIN
    UPDATE intent_counts SET n = n + 1 WHERE state = NEW.state;
END;

CREATE TRIGGER effect_intents_delete BEFORE DELETE ON effect_intents
BEGIN
    SELECT RAISE(ABORT, 'effect_intents: no intent is deleted');
END;

-- Tables that only grow.

CREATE TRIGGER effect_tokens_insert BEFORE INSERT ON effect_tokens
BEGIN
    SELECT CASE
        WHEN NEW.seq <> -1
             OR EXISTS (SELECT 1 FROM effect_tokens WHERE run_id = NEW.run_id AND effect_key = NEW.effect_key AND version = NEW.version)
             OR EXISTS (SELECT 1 FROM effect_tokens WHERE channel = NEW.channel AND digest = NEW.digest)
            THEN RAISE(ABORT, 'effect_tokens: a stored token is never replaced, and belongs to one intent')
        WHEN NOT EXISTS (SELECT 1 FROM effect_intents WHERE run_id = NEW.run_id AND effect_key = NEW.effect_key AND channel = NEW.channel
                         AND state = 'dispatched')
            THEN RAISE(ABORT, 'effect_tokens: a token belongs to a dispatched intent of its channel')
    END;
END;
CREATE TRIGGER effect_tokens_update BEFORE UPDATE ON effect_tokens
WHEN (NEW.seq = OLD.seq AND NEW.run_id = OLD.run_id AND NEW.effect_key = OLD.effect_key AND NEW.version = OLD.version
      AND NEW.channel = OLD.channel AND NEW.digest = OLD.digest AND NEW.hint IS OLD.hint AND NEW.life_us = OLD.life_us
      AND NEW.excludes_earlier = OLD.excludes_earlier AND NEW.lane_number = OLD.lane_number AND NEW.made_at = OLD.made_at
      AND NEW.token = OLD.token AND (OLD.dead_at IS NULL OR NEW.dead_at = OLD.dead_at)) IS NOT TRUE
BEGIN
    SELECT RAISE(ABORT, 'effect_tokens: only dead_at is written later, once');
END;
CREATE TRIGGER effect_tokens_delete BEFORE DELETE ON effect_tokens
BEGIN
    SELECT RAISE(ABORT, 'effect_tokens: no token is deleted');
END;

CREATE TRIGGER outbox_dispatch_log_insert BEFORE INSERT ON outbox_dispatch_log
WHEN EXISTS (SELECT 1 FROM outbox_dispatch_log WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'outbox_dispatch_log: append only');
END;
CREATE TRIGGER outbox_dispatch_log_update BEFORE UPDATE ON outbox_dispatch_log
BEGIN
    SELECT RAISE(ABORT, 'outbox_dispatch_log: append only');
END;
CREATE TRIGGER outbox_dispatch_log_delete BEFORE DELETE ON outbox_dispatch_log
BEGIN
    SELECT RAISE(ABORT, 'outbox_dispatch_log: append only');
END;

CREATE TRIGGER late_evidence_insert BEFORE INSERT ON late_evidence
WHEN EXISTS (SELECT 1 FROM late_evidence WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'late_evidence: append only');
END;
CREATE TRIGGER late_evidence_update BEFORE UPDATE ON late_evidence
WHEN (NEW.id = OLD.id AND NEW.run_id = OLD.run_id AND NEW.effect_key = OLD.effect_key AND NEW.ledger_epoch = OLD.ledger_epoch
      AND NEW.fence_epoch = OLD.fence_epoch AND NEW.fence_owner = OLD.fence_owner AND NEW.attempt = OLD.attempt
      AND NEW.outcome = OLD.outcome AND NEW.evidence IS OLD.evidence AND NEW.reason = OLD.reason AND NEW.at = OLD.at
      AND OLD.used_at IS NULL) IS NOT TRUE
BEGIN
    SELECT RAISE(ABORT, 'late_evidence: only used_at is written later, once');
END;
CREATE TRIGGER late_evidence_delete BEFORE DELETE ON late_evidence
BEGIN
    SELECT RAISE(ABORT, 'late_evidence: append only');
END;

CREATE TRIGGER evidence_ids_insert BEFORE INSERT ON evidence_ids
WHEN EXISTS (SELECT 1 FROM evidence_ids WHERE channel = NEW.channel AND evidence_id = NEW.evidence_id)
BEGIN
    SELECT RAISE(ABORT, 'evidence_ids: one piece of evidence belongs to one intent');
END;
CREATE TRIGGER evidence_ids_update BEFORE UPDATE ON evidence_ids
BEGIN
    SELECT RAISE(ABORT, 'evidence_ids: append only');
END;
CREATE TRIGGER evidence_ids_delete BEFORE DELETE ON evidence_ids
BEGIN
    SELECT RAISE(ABORT, 'evidence_ids: append only');
END;

CREATE TRIGGER approvals_used_insert BEFORE INSERT ON approvals_used
WHEN EXISTS (SELECT 1 FROM approvals_used WHERE reference = NEW.reference AND run_id = NEW.run_id AND effect_key = NEW.effect_key)
BEGIN
    SELECT RAISE(ABORT, 'approvals_used: append only');
END;
CREATE TRIGGER approvals_used_update BEFORE UPDATE ON approvals_used
BEGIN
    SELECT RAISE(ABORT, 'approvals_used: append only');
END;
CREATE TRIGGER approvals_used_delete BEFORE DELETE ON approvals_used
BEGIN
    SELECT RAISE(ABORT, 'approvals_used: append only');
END;

CREATE TRIGGER receipts_insert BEFORE INSERT ON receipts
WHEN NEW.seq <> -1 OR EXISTS (SELECT 1 FROM receipts WHERE id = NEW.id) OR EXISTS (SELECT 1 FROM receipts WHERE issue = NEW.issue)
BEGIN
    SELECT RAISE(ABORT, 'receipts: append only');
END;
CREATE TRIGGER receipts_update BEFORE UPDATE ON receipts
WHEN (OLD.owed = 1 AND NEW.seq = OLD.seq AND NEW.run_id = OLD.run_id AND NEW.effect_key = OLD.effect_key AND NEW.outcome = OLD.outcome
      AND NEW.effect IS OLD.effect AND NEW.owed IN (0, 1)
      AND (NEW.id = OLD.id OR NOT EXISTS (SELECT 1 FROM receipts WHERE id = NEW.id))
      AND (NEW.issue IS NULL OR NOT EXISTS (SELECT 1 FROM receipts WHERE issue = NEW.issue))) IS NOT TRUE
BEGIN
    SELECT RAISE(ABORT, 'receipts: append only; an owed one is paid once');
END;
CREATE TRIGGER receipts_delete BEFORE DELETE ON receipts
BEGIN
    SELECT RAISE(ABORT, 'receipts: append only');
END;

CREATE TRIGGER lane_order_insert BEFORE INSERT ON lane_order
WHEN EXISTS (SELECT 1 FROM lane_order WHERE lane = NEW.lane) OR NEW.next IS NOT 1
BEGIN
    SELECT RAISE(ABORT, 'lane_order: positions only grow');
END;
CREATE TRIGGER lane_order_update BEFORE UPDATE ON lane_order
WHEN (NEW.lane = OLD.lane AND NEW.next >= OLD.next) IS NOT TRUE
BEGIN
    SELECT RAISE(ABORT, 'lane_order: positions only grow');
END;
CREATE TRIGGER lane_order_delete BEFORE DELETE ON lane_order
BEGIN
    SELECT RAISE(ABORT, 'lane_order: no lane is deleted');
END;
CREATE TRIGGER lanes_insert BEFORE INSERT ON lanes
WHEN EXISTS (SELECT 1 FROM lanes WHERE lane = NEW.lane)
BEGIN
    SELECT RAISE(ABORT, 'lanes: turns and numbers only grow');
END;
CREATE TRIGGER lanes_update BEFORE UPDATE ON lanes
WHEN (NEW.lane = OLD.lane AND NEW.turn >= OLD.turn AND NEW.number >= OLD.number) IS NOT TRUE
BEGIN
    SELECT RAISE(ABORT, 'lanes: turns and numbers only grow');
END;
CREATE TRIGGER lanes_delete BEFORE DELETE ON lanes
BEGIN
    SELECT RAISE(ABORT, 'lanes: no lane is deleted');
END;

CREATE TRIGGER agent_runs_insert BEFORE INSERT ON agent_runs
WHEN EXISTS (SELECT 1 FROM agent_runs WHERE id = NEW.id) OR EXISTS (SELECT 1 FROM agent_runs WHERE idempotency_key = NEW.idempotency_key)
BEGIN
    SELECT RAISE(ABORT, 'agent_runs: there is such a run already; a run is never replaced');
END;
CREATE TRIGGER agent_runs_update BEFORE UPDATE ON agent_runs
WHEN (NEW.id = OLD.id AND NEW.lease_epoch >= OLD.lease_epoch AND NEW.idempotency_key IS OLD.idempotency_key) IS NOT TRUE
BEGIN
    SELECT RAISE(ABORT, 'agent_runs: id and idempotency key never change, and lease_epoch only grows');
END;
CREATE TRIGGER agent_runs_delete BEFORE DELETE ON agent_runs
BEGIN
    SELECT RAISE(ABORT, 'agent_runs: no run is deleted');
END;

-- One id, made here, and epochs that only grow.
INSERT INTO ledger_epochs (ledger_id, epoch)
    SELECT substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-4' || substr(h, 14, 3) || '-' || substr('89ab', 1 + abs(random() % 4), 1)
           || substr(h, 18, 3) || '-' || substr(h, 21, 12), 1
    FROM (SELECT lower(hex(randomblob(16))) AS h);
CREATE TRIGGER ledger_epochs_insert BEFORE INSERT ON ledger_epochs
WHEN (NEW.epoch = (SELECT max(epoch) + 1 FROM ledger_epochs) AND NEW.ledger_id = (SELECT ledger_id FROM ledger_epochs LIMIT 1)
      AND (NEW.horizon IS NULL OR NEW.horizon GLOB '????-??-??T??:??:??.??????Z')) IS NOT TRUE
BEGIN
    SELECT RAISE(ABORT, 'ledger_epochs: the next epoch has the next number, the same ledger_id, and a horizon as strftime(''%Y-%m-%dT%H:%M:%f000Z'', …) writes it');
END;
CREATE TRIGGER ledger_epochs_update BEFORE UPDATE ON ledger_epochs
BEGIN
    SELECT RAISE(ABORT, 'ledger_epochs: append only');
END;
CREATE TRIGGER ledger_epochs_delete BEFORE DELETE ON ledger_epochs
BEGIN
    SELECT RAISE(ABORT, 'ledger_epochs: append only');
END;
