-- +goose Up

-- Lives of the ledger: who opened each and why, and the longest fence that the life before may have given out, where the channels' own
-- fence_ttl does not say enough.
ALTER TABLE ledger_epochs ADD COLUMN fence_term_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger_epochs ADD COLUMN opened_by TEXT NOT NULL DEFAULT '';
ALTER TABLE ledger_epochs ADD COLUMN reason TEXT NOT NULL DEFAULT '';

-- When payload, tokens and log were removed.
ALTER TABLE effect_intents ADD COLUMN pruned_at TEXT;

-- As before, and the payload of an intent that is pruned may go; whether it may be is looked at by a trigger of its own.
DROP TRIGGER effect_intents_update;
CREATE TRIGGER effect_intents_update BEFORE UPDATE ON effect_intents
BEGIN
    SELECT CASE
        WHEN (NEW.seq = OLD.seq AND NEW.run_id = OLD.run_id AND NEW.effect_key = OLD.effect_key AND NEW.channel = OLD.channel
              AND (NEW.kind = OLD.kind OR (OLD.kind = '' AND NEW.kind <> '')) AND NEW.payload_digest = OLD.payload_digest
              AND (NEW.payload IS OLD.payload OR NEW.payload = '' AND OLD.pruned_at IS NULL AND NEW.pruned_at IS NOT NULL) AND NEW.approval IS OLD.approval AND NEW.lane IS OLD.lane
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

CREATE TRIGGER effect_intents_pruned_insert AFTER INSERT ON effect_intents WHEN NEW.pruned_at IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'effect_intents: only a new intent may be inserted: it is not pruned');
END;

-- Payload and pruned_at go together, once, a day after the end at the earliest, and not while a receipt is owed. high_us is the ledger's clock,
-- at most a few seconds ahead.
CREATE TRIGGER effect_intents_prune BEFORE UPDATE ON effect_intents WHEN NEW.pruned_at IS NOT OLD.pruned_at
BEGIN
    SELECT CASE
        WHEN OLD.state NOT IN ('committed', 'abandoned') OR NEW.state <> OLD.state
            THEN RAISE(ABORT, 'effect_intents: only an intent that has ended is pruned')
        WHEN OLD.pruned_at IS NOT NULL
            THEN RAISE(ABORT, 'effect_intents: an intent is pruned once')
        WHEN NEW.payload <> '' OR (NEW.pruned_at GLOB '????-??-??T??:??:??.??????Z') IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: pruned_at is a time, and goes with an empty payload')
        WHEN (OLD.committed_at <= strftime('%Y-%m-%dT%H:%M:%f000Z', ((SELECT high_us FROM ledger_clock_high) - 86400000000) / 1000000.0, 'unixepoch')) IS NOT TRUE
            THEN RAISE(ABORT, 'effect_intents: an intent is pruned a day after its end at the earliest')
        WHEN EXISTS (SELECT 1 FROM receipts WHERE run_id = OLD.run_id AND effect_key = OLD.effect_key AND owed = 1)
            THEN RAISE(ABORT, 'effect_intents: a receipt of it is owed')
    END;
END;

-- What an earlier life of the ledger may have sent is found out before it is sent, or called never sent.
CREATE TRIGGER effect_intents_earlier_life BEFORE UPDATE ON effect_intents
WHEN OLD.probe_first = 1 AND (
    NEW.probe_first = 0 AND NEW.state IN ('intent', 'dispatched') AND (OLD.state = 'dispatched' AND NEW.state = 'intent'
        AND (NEW.proof IN ('absent_for_good', 'person') OR NEW.proof IN ('replay_safe', 'resend') AND NEW.may_have_taken_effect = 1)) IS NOT TRUE
    OR NEW.state = 'abandoned' AND NEW.abandoned_as IN ('never_sent', 'refused')
        AND (OLD.state = 'intent' OR NEW.proof NOT IN ('absent_for_good', 'person'))
    OR NEW.probe_first = 1 AND OLD.send_started_at IS NULL AND NEW.send_started_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'effect_intents: an earlier life of the ledger may have sent it: it must be found out first');
END;

-- Tokens and log go with a payload that went.
DROP TRIGGER effect_tokens_delete;
CREATE TRIGGER effect_tokens_delete BEFORE DELETE ON effect_tokens
WHEN NOT EXISTS (SELECT 1 FROM effect_intents WHERE run_id = OLD.run_id AND effect_key = OLD.effect_key AND pruned_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'effect_tokens: no token is deleted before its intent is pruned');
END;
DROP TRIGGER outbox_dispatch_log_delete;
CREATE TRIGGER outbox_dispatch_log_delete BEFORE DELETE ON outbox_dispatch_log
WHEN NOT EXISTS (SELECT 1 FROM effect_intents WHERE run_id = OLD.run_id AND effect_key = OLD.effect_key AND pruned_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'outbox_dispatch_log: append only, until its intent is pruned');
END;

-- Which abandoned intent was claimed again as which: once each. Append only.
CREATE TABLE redrives (
    run_id              TEXT NOT NULL,
    effect_key          TEXT NOT NULL,
    new_effect_key      TEXT NOT NULL CHECK (new_effect_key <> effect_key),
    by                  TEXT NOT NULL CHECK (by <> ''),
    reason              TEXT NOT NULL CHECK (reason <> ''),
    accepted_duplicates TEXT NOT NULL DEFAULT '',
    at                  TEXT NOT NULL,
    PRIMARY KEY (run_id, effect_key),
    UNIQUE (run_id, new_effect_key)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER redrives_insert BEFORE INSERT ON redrives
BEGIN
    SELECT CASE
        WHEN EXISTS (SELECT 1 FROM redrives WHERE run_id = NEW.run_id AND (effect_key = NEW.effect_key OR new_effect_key = NEW.new_effect_key))
            THEN RAISE(ABORT, 'redrives: an intent is redriven once')
        WHEN NOT EXISTS (SELECT 1 FROM effect_intents i JOIN effect_intents n ON n.run_id = i.run_id AND n.effect_key = NEW.new_effect_key
                         WHERE i.run_id = NEW.run_id AND i.effect_key = NEW.effect_key AND i.state = 'abandoned'
                             AND n.payload_digest = i.payload_digest AND n.channel = i.channel)
            THEN RAISE(ABORT, 'redrives: a redrive links an abandoned intent to one of the same channel and payload')
    END;
END;
CREATE TRIGGER redrives_update BEFORE UPDATE ON redrives
BEGIN
    SELECT RAISE(ABORT, 'redrives: append only');
END;
CREATE TRIGGER redrives_delete BEFORE DELETE ON redrives
BEGIN
    SELECT RAISE(ABORT, 'redrives: append only');
END;
