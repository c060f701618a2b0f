-- +goose Up

-- Lives of the ledger: who opened each and why, and the longest fence that the life before may have given out, where the channels' own
-- fence_ttl does not say enough.
ALTER TABLE ledger_epochs ADD COLUMN fence_term interval NOT NULL DEFAULT '0';
ALTER TABLE ledger_epochs ADD COLUMN opened_by text NOT NULL DEFAULT '';
ALTER TABLE ledger_epochs ADD COLUMN reason text NOT NULL DEFAULT '';
-- +goose StatementBegin
CREATE FUNCTION ledger_epochs_open() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ledger_epochs e WHERE e.ledger_id = NEW.ledger_id AND NEW.epoch = (SELECT max(epoch) + 1 FROM ledger_epochs)) THEN
        RAISE EXCEPTION 'pawl: the next epoch has the next number and the same ledger_id' USING ERRCODE = 'PW001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER ledger_epochs_open BEFORE INSERT ON ledger_epochs FOR EACH ROW EXECUTE FUNCTION ledger_epochs_open();
CREATE TRIGGER ledger_epochs_unchanging BEFORE UPDATE ON ledger_epochs FOR EACH ROW EXECUTE FUNCTION ledger_append_only();

-- When payload, tokens and log were removed.
ALTER TABLE effect_intents ADD COLUMN pruned_at timestamptz;

-- As before, and until the horizon of a new epoch every claim counts as one that may have existed.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION effect_intents_claim() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    lease bigint;
    restored boolean;
BEGIN
    IF NEW.state <> 'intent' OR NEW.fence_epoch <> 0 OR NEW.fence_owner <> '' OR NEW.fence_expires_at IS NOT NULL
        OR NEW.ledger_epoch <> 0 OR NEW.probing OR NEW.send_started_at IS NOT NULL OR NEW.first_sent_at IS NOT NULL
        OR NEW.last_possible_send IS NOT NULL OR NEW.may_have_taken_effect OR NEW.external_ref IS NOT NULL
        OR NEW.late_ref IS NOT NULL OR NEW.starts <> 0 OR NEW.attempts <> 0 OR NEW.lane_position IS NOT NULL
        OR NEW.lane_turn_ended OR NEW.accepted_at IS NOT NULL OR NEW.held_at IS NOT NULL OR NEW.committed_at IS NOT NULL
        OR NEW.pruned_at IS NOT NULL OR NEW.abandoned_as <> '' OR NEW.established <> '' OR NEW.decided_by <> '' OR NEW.proof <> '' THEN
        RAISE EXCEPTION 'pawl: only a bare intent may be inserted, with no fence, stamp, place or evidence'
            USING ERRCODE = 'PW001', HINT = 'Give run_id, effect_key, channel, payload, payload_digest and, if wanted, lane, due_at, expires_at, approval.';
    END IF;
    SELECT (SELECT r.lease_epoch FROM agent_runs r WHERE r.id = NEW.run_id AND r.status IN ('leased', 'running') AND r.lease_owner <> ''),
        (SELECT e.epoch > 1 AND e.opened_at + e.horizon > clock_timestamp() FROM ledger_epochs e ORDER BY e.epoch DESC LIMIT 1)
        INTO lease, restored;
    IF restored THEN
        NEW.probe_first := true;
    END IF;
    IF lease <> NEW.run_epoch THEN
        RAISE EXCEPTION 'pawl: the run % is leased; a claim must name the lease''s number in run_epoch', NEW.run_id
            USING ERRCODE = 'PW002', HINT = 'Claim under the lease, or stop: another worker has the run.';
    END IF;
    IF NEW.kind = '' THEN
        NEW.kind := split_part(regexp_replace(NEW.effect_key, '^shadow:', ''), ':', 1);
    END IF;
    IF NEW.payload LIKE '\\x%' THEN -- given as bytea: no JSON begins so
        NEW.payload := convert_from(NEW.payload::bytea, 'UTF8');
    END IF;
    NEW.queue_seq := nextval('dispatch_queue_seq');
    NEW.lane := nullif(NEW.lane, '');
    IF NEW.lane IS NOT NULL AND NOT EXISTS
        (SELECT FROM effect_intents WHERE run_id = NEW.run_id AND effect_key = NEW.effect_key) THEN
        INSERT INTO lane_order AS o (lane, next) VALUES (NEW.lane, 2)
            ON CONFLICT (lane) DO UPDATE SET next = o.next + 1
            RETURNING next - 1 INTO NEW.lane_position;
        IF NEW.lane_position = 1 THEN
            INSERT INTO lanes (lane) VALUES (NEW.lane) ON CONFLICT DO NOTHING;
        END IF;
    ELSIF NEW.lane IS NOT NULL THEN
        NEW.lane_position := 0; -- a duplicate: it will not be inserted
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- As before, and an intent that has ended may be pruned. In a new epoch a last possible send may be known before a first one.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION effect_intents_move() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    prior record;
    why text;
BEGIN
    IF OLD.state = 'committed' OR OLD.state = 'abandoned' THEN
        prior := OLD;
        IF OLD.late_ref IS NULL THEN
            prior.late_ref := NEW.late_ref;
        END IF;
        IF OLD.pruned_at IS NULL AND NEW.pruned_at IS NOT NULL THEN -- whether it may be is looked at by a trigger of its own
            prior.payload := '';
            prior.pruned_at := NEW.pruned_at;
        END IF;
        IF prior IS DISTINCT FROM NEW THEN
            why := 'the intent has ended as ' || OLD.state || ' and changes no more';
        END IF;
    ELSIF NEW.fence_epoch < OLD.fence_epoch OR NEW.starts < OLD.starts OR NEW.attempts < OLD.attempts
        OR NEW.ledger_epoch < OLD.ledger_epoch THEN
        why := 'fence numbers, starts, attempts and epochs only grow';
    ELSIF OLD.last_possible_send IS NOT NULL
        AND (NEW.last_possible_send IS NULL OR NEW.last_possible_send < OLD.last_possible_send)
        OR OLD.first_sent_at IS NOT NULL AND NEW.first_sent_at IS DISTINCT FROM OLD.first_sent_at THEN
        why := 'the last possible send is never moved earlier, the first send never changes';
    ELSIF NEW.late_ref IS NOT NULL THEN
        why := 'late_ref is for intents that have ended';
    ELSIF OLD.state = 'dispatched' THEN
        IF NEW.proof NOT IN ('', 'no_stamp', 'not_sent', 'absent_for_good', 'replay_safe', 'resend', 'person') THEN
            why := NEW.proof || ' is no proof';
        ELSIF NEW.state = 'dispatched' THEN
            NULL; -- what becomes of stamp and doubt is looked at by a trigger of its own
        ELSIF NEW.state = 'intent' THEN
            IF NEW.fence_epoch = OLD.fence_epoch THEN
                why := 'a reopen takes a new fence number';
            ELSIF NEW.send_started_at IS NOT NULL THEN
                why := 'a reopened intent carries no stamp';
            ELSIF NEW.proof = '' THEN
                why := 'a reopen names its proof';
            ELSIF OLD.send_started_at IS NOT NULL AND NEW.proof = 'no_stamp' THEN
                why := 'there is a stamp';
            ELSIF NEW.proof IN ('replay_safe', 'resend') AND OLD.send_started_at IS NOT NULL AND NOT NEW.may_have_taken_effect THEN
                why := 'this proof keeps the doubt';
            ELSIF OLD.may_have_taken_effect AND NOT NEW.may_have_taken_effect AND NEW.proof NOT IN ('absent_for_good', 'person') THEN
                why := 'only a finding for all versions, or a person, clears doubt';
            END IF;
        ELSIF NEW.state = 'abandoned' THEN
            IF OLD.send_started_at IS NOT NULL AND NEW.send_started_at IS NULL AND NEW.proof NOT IN ('not_sent', 'absent_for_good', 'person') THEN
                why := 'there is a stamp, and no proof that nothing was sent';
            ELSIF OLD.may_have_taken_effect AND NOT NEW.may_have_taken_effect AND NEW.proof NOT IN ('absent_for_good', 'person') THEN
                why := 'only a finding for all versions, or a person, clears doubt';
            END IF;
        END IF;
    ELSIF NEW.state = 'dispatched' THEN
        IF NEW.fence_epoch = OLD.fence_epoch THEN
            why := 'a fence takes a new number';
        ELSIF NEW.proof <> '' THEN
            why := 'a proof goes with a reopen or an end';
        ELSIF NEW.send_started_at IS NOT NULL AND NOT (NEW.starts > OLD.starts AND NEW.attempts > OLD.attempts) THEN
            why := 'a stamp counts a start and an attempt';
        END IF;
    ELSIF NEW.state = 'abandoned' THEN
        IF OLD.may_have_taken_effect OR OLD.send_started_at IS NOT NULL THEN
            why := 'an attempt may have taken effect: it must be found out first';
        END IF;
    ELSIF NEW.state = 'committed' THEN
        why := 'an intent is committed only from dispatched';
    ELSIF NEW.send_started_at IS NOT NULL OR NEW.fence_epoch <> OLD.fence_epoch THEN
        why := 'fence and stamp need the state dispatched';
    END IF;
    IF why IS NOT NULL THEN
        RAISE EXCEPTION 'pawl: % → % refused: % (run %, key %)', OLD.state, NEW.state, why, OLD.run_id, OLD.effect_key
            USING ERRCODE = 'PW001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
DROP TRIGGER effect_intents_unchanging ON effect_intents;
CREATE TRIGGER effect_intents_unchanging
    BEFORE UPDATE OF run_id, effect_key, run_epoch, kind, channel, payload_digest, payload, lane, lane_position, queue_seq, expires_at,
        approval, created_at ON effect_intents FOR EACH ROW
    WHEN (OLD.run_id <> NEW.run_id OR OLD.effect_key <> NEW.effect_key OR OLD.run_epoch <> NEW.run_epoch OR OLD.kind <> NEW.kind
        OR OLD.channel <> NEW.channel OR OLD.payload_digest <> NEW.payload_digest
        OR OLD.payload <> NEW.payload AND NOT (NEW.payload = '' AND OLD.pruned_at IS NULL AND NEW.pruned_at IS NOT NULL)
        OR OLD.lane IS DISTINCT FROM NEW.lane OR OLD.lane_position IS DISTINCT FROM NEW.lane_position
        OR OLD.queue_seq <> NEW.queue_seq OR OLD.expires_at IS DISTINCT FROM NEW.expires_at
        OR OLD.approval IS DISTINCT FROM NEW.approval OR OLD.created_at <> NEW.created_at)
    EXECUTE FUNCTION ledger_unchanging();

-- Payload and pruned_at go together, once, a day after the end at the earliest, and not while a receipt is owed.
-- +goose StatementBegin
CREATE FUNCTION effect_intents_prune() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    why text;
BEGIN
    IF OLD.state NOT IN ('committed', 'abandoned') OR NEW.state <> OLD.state THEN
        why := 'it has not ended';
    ELSIF OLD.pruned_at IS NOT NULL THEN
        why := 'it was pruned already';
    ELSIF NEW.payload <> '' THEN
        why := 'pruned_at goes with an empty payload';
    ELSIF OLD.committed_at IS NULL OR OLD.committed_at > clock_timestamp() - interval '24 hours' THEN
        why := 'it ended less than a day ago';
    ELSIF EXISTS (SELECT FROM receipts r WHERE r.run_id = OLD.run_id AND r.effect_key = OLD.effect_key AND r.owed) THEN
        why := 'a receipt of it is owed';
    END IF;
    IF why IS NOT NULL THEN
        RAISE EXCEPTION 'pawl: prune refused: % (run %, key %)', why, OLD.run_id, OLD.effect_key USING ERRCODE = 'PW001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER effect_intents_prune BEFORE UPDATE ON effect_intents FOR EACH ROW
    WHEN (OLD.pruned_at IS DISTINCT FROM NEW.pruned_at) EXECUTE FUNCTION effect_intents_prune();

-- What an earlier life of the ledger may have sent is found out before it is sent, or called never sent.
-- +goose StatementBegin
CREATE FUNCTION effect_intents_earlier_life() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'pawl: % → % refused: an earlier life of the ledger may have sent it: it must be found out first (run %, key %)',
        OLD.state, NEW.state, OLD.run_id, OLD.effect_key USING ERRCODE = 'PW001';
END $$;
-- +goose StatementEnd
CREATE TRIGGER effect_intents_earlier_life BEFORE UPDATE ON effect_intents FOR EACH ROW
    WHEN (OLD.probe_first AND (
        NOT NEW.probe_first AND NEW.state IN ('intent', 'dispatched') AND NOT (OLD.state = 'dispatched' AND NEW.state = 'intent'
            AND (NEW.proof IN ('absent_for_good', 'person') OR NEW.proof IN ('replay_safe', 'resend') AND NEW.may_have_taken_effect))
        OR NEW.state = 'abandoned' AND NEW.abandoned_as IN ('never_sent', 'refused')
            AND (OLD.state = 'intent' OR NEW.proof NOT IN ('absent_for_good', 'person'))
        OR NEW.probe_first AND OLD.send_started_at IS NULL AND NEW.send_started_at IS NOT NULL))
    EXECUTE FUNCTION effect_intents_earlier_life();

-- Tokens and log go with a payload that went.
-- +goose StatementBegin
CREATE FUNCTION ledger_only_pruned() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM effect_intents i WHERE i.run_id = OLD.run_id AND i.effect_key = OLD.effect_key AND i.pruned_at IS NOT NULL) THEN
        RAISE EXCEPTION 'pawl: DELETE on % refused: its rows are kept until their intent is pruned', TG_TABLE_NAME USING ERRCODE = 'PW003';
    END IF;
    RETURN OLD;
END $$;
-- +goose StatementEnd
DROP TRIGGER effect_tokens_kept ON effect_tokens;
DROP TRIGGER outbox_dispatch_log_kept ON outbox_dispatch_log;
CREATE TRIGGER effect_tokens_kept BEFORE TRUNCATE ON effect_tokens EXECUTE FUNCTION ledger_append_only();
CREATE TRIGGER outbox_dispatch_log_kept BEFORE TRUNCATE ON outbox_dispatch_log EXECUTE FUNCTION ledger_append_only();
CREATE TRIGGER effect_tokens_pruned BEFORE DELETE ON effect_tokens FOR EACH ROW EXECUTE FUNCTION ledger_only_pruned();
CREATE TRIGGER outbox_dispatch_log_pruned BEFORE DELETE ON outbox_dispatch_log FOR EACH ROW EXECUTE FUNCTION ledger_only_pruned();

-- Which abandoned intent was claimed again as which: once each. Append only.
CREATE TABLE redrives (
    run_id uuid NOT NULL,
    effect_key text COLLATE "C" NOT NULL,
    new_effect_key text COLLATE "C" NOT NULL CHECK (new_effect_key <> effect_key),
    by text NOT NULL CHECK (by <> ''),
    reason text NOT NULL CHECK (reason <> ''),
    accepted_duplicates text NOT NULL DEFAULT '',
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, effect_key),
    CONSTRAINT redrives_new UNIQUE (run_id, new_effect_key)
);
-- +goose StatementBegin
CREATE FUNCTION redrives_link() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM effect_intents i JOIN effect_intents n ON n.run_id = i.run_id AND n.effect_key = NEW.new_effect_key
                   WHERE i.run_id = NEW.run_id AND i.effect_key = NEW.effect_key AND i.state = 'abandoned'
                       AND n.payload_digest = i.payload_digest AND n.channel = i.channel) THEN
        RAISE EXCEPTION 'pawl: a redrive links an abandoned intent to one of the same channel and payload' USING ERRCODE = 'PW001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER redrives_link BEFORE INSERT ON redrives FOR EACH ROW EXECUTE FUNCTION redrives_link();
CREATE TRIGGER redrives_unchanging BEFORE UPDATE ON redrives FOR EACH ROW EXECUTE FUNCTION ledger_append_only();
CREATE TRIGGER redrives_kept BEFORE DELETE OR TRUNCATE ON redrives EXECUTE FUNCTION ledger_append_only();

-- They hold for the replica role, too.
ALTER TABLE ledger_epochs ENABLE ALWAYS TRIGGER ledger_epochs_open;
ALTER TABLE ledger_epochs ENABLE ALWAYS TRIGGER ledger_epochs_unchanging;
ALTER TABLE effect_intents ENABLE ALWAYS TRIGGER effect_intents_unchanging;
ALTER TABLE effect_intents ENABLE ALWAYS TRIGGER effect_intents_prune;
ALTER TABLE effect_intents ENABLE ALWAYS TRIGGER effect_intents_earlier_life;
ALTER TABLE effect_tokens ENABLE ALWAYS TRIGGER effect_tokens_kept;
ALTER TABLE effect_tokens ENABLE ALWAYS TRIGGER effect_tokens_pruned;
ALTER TABLE outbox_dispatch_log ENABLE ALWAYS TRIGGER outbox_dispatch_log_kept;
ALTER TABLE outbox_dispatch_log ENABLE ALWAYS TRIGGER outbox_dispatch_log_pruned;
ALTER TABLE redrives ENABLE ALWAYS TRIGGER redrives_link;
ALTER TABLE redrives ENABLE ALWAYS TRIGGER redrives_unchanging;
ALTER TABLE redrives ENABLE ALWAYS TRIGGER redrives_kept;
