-- +goose Up

-- A claim: only a bare intent may be inserted, a leased run's only under its lease, and the lane gives it its place. Where the insert
-- then meets a duplicate in another transaction the place stays empty; the lane passes over it.
-- +goose StatementBegin
CREATE FUNCTION effect_intents_claim() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    lease bigint;
BEGIN
    IF NEW.state <> 'intent' OR NEW.fence_epoch <> 0 OR NEW.fence_owner <> '' OR NEW.fence_expires_at IS NOT NULL
        OR NEW.ledger_epoch <> 0 OR NEW.probing OR NEW.send_started_at IS NOT NULL OR NEW.first_sent_at IS NOT NULL
        OR NEW.last_possible_send IS NOT NULL OR NEW.may_have_taken_effect OR NEW.external_ref IS NOT NULL
        OR NEW.late_ref IS NOT NULL OR NEW.starts <> 0 OR NEW.attempts <> 0 OR NEW.lane_position IS NOT NULL
        OR NEW.lane_turn_ended OR NEW.accepted_at IS NOT NULL OR NEW.held_at IS NOT NULL OR NEW.committed_at IS NOT NULL
        OR NEW.abandoned_as <> '' OR NEW.established <> '' OR NEW.decided_by <> '' OR NEW.proof <> '' THEN
        RAISE EXCEPTION 'pawl: only a bare intent may be inserted, with no fence, stamp, place or evidence'
            USING ERRCODE = 'PW001', HINT = 'Give run_id, effect_key, channel, payload, payload_digest and, if wanted, lane, due_at, expires_at, approval.';
    END IF;
    SELECT lease_epoch INTO lease FROM agent_runs
        WHERE id = NEW.run_id AND status IN ('leased', 'running') AND lease_owner <> '';
    IF FOUND AND lease <> NEW.run_epoch THEN
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
CREATE TRIGGER effect_intents_claim BEFORE INSERT ON effect_intents FOR EACH ROW EXECUTE FUNCTION effect_intents_claim();

-- An approval serves as many intents as it states, whoever wrote them: at commit a claim by plain SQL takes its slot, too. The library has
-- taken it by then.
-- +goose StatementBegin
CREATE FUNCTION effect_intents_approval() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    named text := NEW.approval->>'reference';
BEGIN
    IF coalesce(named, '') = '' THEN
        RAISE EXCEPTION 'pawl: the approval names no reference' USING ERRCODE = 'PW001';
    END IF;
    IF EXISTS (SELECT FROM approvals_used WHERE reference = named AND run_id = NEW.run_id AND effect_key = NEW.effect_key) THEN
        RETURN NULL;
    END IF;
    FOR place IN 1 .. greatest(coalesce((NEW.approval->>'count')::int, 1), 1) LOOP
        INSERT INTO approvals_used (reference, slot, run_id, effect_key) VALUES (named, place, NEW.run_id, NEW.effect_key)
            ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN NULL;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'pawl: the approval % was used already', named
        USING ERRCODE = 'PW001', HINT = 'An approval serves one intent unless it states a count. Ask for a new one.';
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER effect_intents_approval AFTER INSERT ON effect_intents DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.approval IS NOT NULL) EXECUTE FUNCTION effect_intents_approval();

-- The queue rows of a claim. A transaction that reads one snapshot throughout cannot see whose turn it is now: it leaves the question to
-- the fence.
-- +goose StatementBegin
CREATE FUNCTION effect_intents_enqueue() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO dispatch_queue (seq, run_id, effect_key, channel, phase, due_at, turn_waiting)
        SELECT a.queue_seq, a.run_id, a.effect_key, a.channel, 'send', a.due_at,
               l.turn IS NOT NULL AND l.turn <> a.lane_position
                   AND current_setting('transaction_isolation') = 'read committed'
        FROM added a LEFT JOIN lanes l ON l.lane = a.lane
        ORDER BY a.queue_seq
        ON CONFLICT DO NOTHING;
    -- The turn may be at a place that a duplicate left empty: the next fence passes over it.
    UPDATE lanes l SET wanted = true
        WHERE l.lane IN (SELECT lane FROM added WHERE lane_position > 1) AND NOT l.wanted
            AND l.turn < (SELECT max(a.lane_position) FROM added a WHERE a.lane = l.lane)
            AND NOT EXISTS (SELECT FROM effect_intents i WHERE i.lane = l.lane AND i.lane_position = l.turn);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER effect_intents_enqueue AFTER INSERT ON effect_intents REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION effect_intents_enqueue();

-- Moves: no others exist.
-- +goose StatementBegin
CREATE FUNCTION effect_intents_move() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    prior record;
    why text;
BEGIN
    IF OLD.state = 'committed' OR OLD.state = 'abandoned' THEN
        prior := OLD;
        IF OLD.late_ref IS NULL THEN
            prior.late_ref := NEW.late_ref;
        END IF;
        IF prior IS DISTINCT FROM NEW THEN
            why := 'the intent has ended as ' || OLD.state || ' and changes no more';
        END IF;
    ELSIF NEW.fence_epoch < OLD.fence_epoch OR NEW.starts < OLD.starts OR NEW.attempts < OLD.attempts
        OR NEW.ledger_epoch < OLD.ledger_epoch THEN
        why := 'fence numbers, starts, attempts and epochs only grow';
    ELSIF OLD.last_possible_send IS NOT NULL
        AND (NEW.last_possible_send IS NULL OR NEW.last_possible_send < OLD.last_possible_send
             OR NEW.first_sent_at IS DISTINCT FROM OLD.first_sent_at) THEN
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
CREATE TRIGGER effect_intents_move BEFORE UPDATE ON effect_intents FOR EACH ROW EXECUTE FUNCTION effect_intents_move();

-- Within a state, doubt goes only when late evidence says that the attempt was not sent; the stamp also by the typed not sent of its own
-- attempt.
-- +goose StatementBegin
CREATE FUNCTION effect_intents_doubt() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM late_evidence
                   WHERE run_id = OLD.run_id AND effect_key = OLD.effect_key AND outcome = 'not_sent') THEN
        RAISE EXCEPTION 'pawl: doubt is not forgotten: no late evidence says that the attempt was not sent (run %, key %)',
            OLD.run_id, OLD.effect_key USING ERRCODE = 'PW001';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER effect_intents_doubt BEFORE UPDATE ON effect_intents FOR EACH ROW
    WHEN (NEW.state = OLD.state AND NEW.state IN ('intent', 'dispatched')
          AND (OLD.send_started_at IS NOT NULL AND NEW.send_started_at IS NULL AND NEW.proof <> 'not_sent'
               OR NOT (OLD.doubtful_attempts <@ NEW.doubtful_attempts)))
    EXECUTE FUNCTION effect_intents_doubt();

-- +goose StatementBegin
CREATE FUNCTION ledger_unchanging() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'pawl: these columns of % never change', TG_TABLE_NAME USING ERRCODE = 'PW001';
END $$;
CREATE FUNCTION ledger_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'pawl: % on % refused: its rows are kept', TG_OP, TG_TABLE_NAME USING ERRCODE = 'PW003';
END $$;
-- +goose StatementEnd

-- Only statements that name one of these columns pay for the comparison.
CREATE TRIGGER effect_intents_unchanging
    BEFORE UPDATE OF run_id, effect_key, run_epoch, kind, channel, payload_digest, payload, lane, lane_position, queue_seq, expires_at,
        approval, created_at ON effect_intents FOR EACH ROW
    WHEN (OLD.run_id <> NEW.run_id OR OLD.effect_key <> NEW.effect_key OR OLD.run_epoch <> NEW.run_epoch OR OLD.kind <> NEW.kind
        OR OLD.channel <> NEW.channel OR OLD.payload_digest <> NEW.payload_digest OR OLD.payload <> NEW.payload
        OR OLD.lane IS DISTINCT FROM NEW.lane OR OLD.lane_position IS DISTINCT FROM NEW.lane_position
        OR OLD.queue_seq <> NEW.queue_seq OR OLD.expires_at IS DISTINCT FROM NEW.expires_at
        OR OLD.approval IS DISTINCT FROM NEW.approval OR OLD.created_at <> NEW.created_at)
    EXECUTE FUNCTION ledger_unchanging();

CREATE TRIGGER effect_tokens_unchanging BEFORE UPDATE ON effect_tokens FOR EACH ROW
    WHEN (OLD.dead_at IS NOT NULL OR OLD.run_id <> NEW.run_id OR OLD.effect_key <> NEW.effect_key OR OLD.version <> NEW.version
        OR OLD.channel <> NEW.channel OR OLD.digest <> NEW.digest OR OLD.token <> NEW.token OR OLD.hint IS DISTINCT FROM NEW.hint
        OR OLD.life <> NEW.life OR OLD.excludes_earlier <> NEW.excludes_earlier OR OLD.lane_number <> NEW.lane_number
        OR OLD.made_at <> NEW.made_at)
    EXECUTE FUNCTION ledger_unchanging();
CREATE TRIGGER late_evidence_unchanging BEFORE UPDATE ON late_evidence FOR EACH ROW
    WHEN (OLD.used_at IS NOT NULL OR OLD.id <> NEW.id OR OLD.run_id <> NEW.run_id OR OLD.effect_key <> NEW.effect_key
        OR OLD.ledger_epoch <> NEW.ledger_epoch OR OLD.fence_epoch <> NEW.fence_epoch OR OLD.fence_owner <> NEW.fence_owner
        OR OLD.attempt <> NEW.attempt OR OLD.outcome <> NEW.outcome OR OLD.evidence <> NEW.evidence OR OLD.reason <> NEW.reason
        OR OLD.at <> NEW.at)
    EXECUTE FUNCTION ledger_unchanging();
CREATE TRIGGER receipts_unchanging BEFORE UPDATE ON receipts FOR EACH ROW
    WHEN (NOT OLD.owed OR OLD.run_id <> NEW.run_id OR OLD.effect_key <> NEW.effect_key OR OLD.outcome <> NEW.outcome
        OR OLD.effect IS DISTINCT FROM NEW.effect OR OLD.created_at <> NEW.created_at)
    EXECUTE FUNCTION ledger_unchanging();
CREATE TRIGGER outbox_dispatch_log_unchanging BEFORE UPDATE ON outbox_dispatch_log FOR EACH ROW EXECUTE FUNCTION ledger_append_only();
CREATE TRIGGER evidence_ids_unchanging BEFORE UPDATE ON evidence_ids FOR EACH ROW EXECUTE FUNCTION ledger_append_only();
CREATE TRIGGER approvals_used_unchanging BEFORE UPDATE ON approvals_used FOR EACH ROW EXECUTE FUNCTION ledger_append_only();

CREATE TRIGGER effect_intents_kept BEFORE DELETE OR TRUNCATE ON effect_intents EXECUTE FUNCTION ledger_append_only();
CREATE TRIGGER effect_tokens_kept BEFORE DELETE OR TRUNCATE ON effect_tokens EXECUTE FUNCTION ledger_append_only();
CREATE TRIGGER outbox_dispatch_log_kept BEFORE DELETE OR TRUNCATE ON outbox_dispatch_log EXECUTE FUNCTION ledger_append_only();
CREATE TRIGGER late_evidence_kept BEFORE DELETE OR TRUNCATE ON late_evidence EXECUTE FUNCTION ledger_append_only();
CREATE TRIGGER evidence_ids_kept BEFORE DELETE OR TRUNCATE ON evidence_ids EXECUTE FUNCTION ledger_append_only();
CREATE TRIGGER approvals_used_kept BEFORE DELETE OR TRUNCATE ON approvals_used EXECUTE FUNCTION ledger_append_only();
CREATE TRIGGER receipts_kept BEFORE DELETE OR TRUNCATE ON receipts EXECUTE FUNCTION ledger_append_only();
CREATE TRIGGER ledger_epochs_kept BEFORE DELETE OR TRUNCATE ON ledger_epochs EXECUTE FUNCTION ledger_append_only();

-- They hold for the replica role, too.
ALTER TABLE effect_intents ENABLE ALWAYS TRIGGER effect_intents_claim;
ALTER TABLE effect_intents ENABLE ALWAYS TRIGGER effect_intents_approval;
ALTER TABLE effect_intents ENABLE ALWAYS TRIGGER effect_intents_enqueue;
ALTER TABLE effect_intents ENABLE ALWAYS TRIGGER effect_intents_move;
ALTER TABLE effect_intents ENABLE ALWAYS TRIGGER effect_intents_doubt;
ALTER TABLE effect_intents ENABLE ALWAYS TRIGGER effect_intents_unchanging;
ALTER TABLE effect_intents ENABLE ALWAYS TRIGGER effect_intents_kept;
ALTER TABLE effect_tokens ENABLE ALWAYS TRIGGER effect_tokens_unchanging;
ALTER TABLE effect_tokens ENABLE ALWAYS TRIGGER effect_tokens_kept;
ALTER TABLE outbox_dispatch_log ENABLE ALWAYS TRIGGER outbox_dispatch_log_unchanging;
ALTER TABLE outbox_dispatch_log ENABLE ALWAYS TRIGGER outbox_dispatch_log_kept;
ALTER TABLE late_evidence ENABLE ALWAYS TRIGGER late_evidence_unchanging;
ALTER TABLE late_evidence ENABLE ALWAYS TRIGGER late_evidence_kept;
ALTER TABLE evidence_ids ENABLE ALWAYS TRIGGER evidence_ids_unchanging;
ALTER TABLE evidence_ids ENABLE ALWAYS TRIGGER evidence_ids_kept;
ALTER TABLE approvals_used ENABLE ALWAYS TRIGGER approvals_used_unchanging;
ALTER TABLE approvals_used ENABLE ALWAYS TRIGGER approvals_used_kept;
ALTER TABLE receipts ENABLE ALWAYS TRIGGER receipts_unchanging;
ALTER TABLE receipts ENABLE ALWAYS TRIGGER receipts_kept;
ALTER TABLE ledger_epochs ENABLE ALWAYS TRIGGER ledger_epochs_kept;
