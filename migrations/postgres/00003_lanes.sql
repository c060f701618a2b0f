-- +goose Up

-- lane_advance ends the turn at a place. The turn goes to the next place whose intent has neither ended nor ended its turn; places
-- that a duplicate left empty are passed over. If somebody may be claiming the next place just now, having read the old turn,
-- the lane is marked as wanted and the next fence looks again. Call it with no queue row locked that another one waits for.
-- +goose StatementBegin
CREATE FUNCTION lane_advance(which text, place bigint) RETURNS bigint LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    at bigint;
    given bigint;
    seq_there bigint;
    over boolean;
    settled boolean := false;
    want boolean := false;
BEGIN
    SELECT turn INTO at FROM lanes WHERE lane = which FOR UPDATE;
    IF NOT FOUND OR at <> place THEN
        RETURN at;
    END IF;
    at := at + 1;
    LOOP
        -- One snapshot for both: a place that was given out by a transaction that committed has its intent in sight.
        SELECT o.next, i.queue_seq, i.state IN ('committed', 'abandoned') OR i.lane_turn_ended
            INTO given, seq_there, over
            FROM lane_order o LEFT JOIN effect_intents i ON i.lane = o.lane AND i.lane_position = at
            WHERE o.lane = which;
        IF seq_there IS NOT NULL AND NOT over THEN
            EXIT;
        ELSIF seq_there IS NOT NULL OR given > at THEN
            at := at + 1;
        ELSIF settled THEN
            EXIT;
        ELSE
            PERFORM FROM lane_order WHERE lane = which FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                want := true;
                EXIT;
            END IF;
            settled := true; -- nobody can claim now, and whoever does next sees the new turn
        END IF;
    END LOOP;
    UPDATE lanes SET turn = at, wanted = want WHERE lane = which;
    IF seq_there IS NOT NULL THEN
        UPDATE dispatch_queue SET turn_waiting = false WHERE seq = seq_there AND turn_waiting;
    END IF;
    RETURN at;
END $$;

-- lane_resolve looks again at a lane that is wanted. The caller has locked its row.
CREATE FUNCTION lane_resolve(which text) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    at bigint;
    given bigint;
    seq_there bigint;
    over boolean;
BEGIN
    SELECT turn INTO at FROM lanes WHERE lane = which AND wanted FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT o.next, i.queue_seq, i.state IN ('committed', 'abandoned') OR i.lane_turn_ended
        INTO given, seq_there, over
        FROM lane_order o LEFT JOIN effect_intents i ON i.lane = o.lane AND i.lane_position = at
        WHERE o.lane = which;
    IF seq_there IS NULL AND given <= at THEN
        PERFORM FROM lane_order WHERE lane = which FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN; -- still being claimed
        END IF;
        SELECT o.next, i.queue_seq, i.state IN ('committed', 'abandoned') OR i.lane_turn_ended
            INTO given, seq_there, over
            FROM lane_order o LEFT JOIN effect_intents i ON i.lane = o.lane AND i.lane_position = at
            WHERE o.lane = which;
        IF seq_there IS NULL AND given <= at THEN
            UPDATE lanes SET wanted = false WHERE lane = which;
            RETURN;
        END IF;
    END IF;
    IF seq_there IS NULL OR over THEN
        PERFORM lane_advance(which, at);
        RETURN;
    END IF;
    UPDATE dispatch_queue SET turn_waiting = false
        WHERE seq = (SELECT seq FROM dispatch_queue WHERE seq = seq_there FOR UPDATE SKIP LOCKED) AND turn_waiting;
    UPDATE lanes SET wanted = false
        WHERE lane = which AND NOT EXISTS (SELECT FROM dispatch_queue WHERE seq = seq_there AND turn_waiting);
END $$;
-- +goose StatementEnd
