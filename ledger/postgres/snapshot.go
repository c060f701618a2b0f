package postgres

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// locked is a row that the session holds, with what [ledger.Apply] is told of it.
type locked struct {
	seq  int64
	snap ledger.Snapshot
}

// queueLock queues the statement that locks one row. into stays nil if there is none.
func (s *session) queueLock(k ledger.Key, skipLocked bool, into **intentRow) {
	sql := s.l.sql.lock
	if skipLocked {
		sql = s.l.sql.lockFree
	}
	s.queue(sql, k.RunID, k.EffectKey).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			row := &intentRow{}
			if err := rows.Scan(row.targets()...); err != nil {
				return err
			}
			if err := row.finish(); err != nil {
				return err
			}
			*into = row
		}
		return rows.Err()
	})
}

// around is what stands beside one row: read by a statement of its own that runs after the row was locked, so that it is no older than
// the row, and the clock neither.
type around struct {
	now          time.Time
	epoch        int64
	runCancelled bool
	ownerSeen    time.Time
	tokens       []channel.Token
	late         []ledger.LateEvidence
}

// queueAround queues the reading of what stands beside the rows, in their order.
func (s *session) queueAround(keys []ledger.Key, into *[]around) {
	runs, names := split(keys)
	s.queue(s.l.sql.around, runs, names).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var a around
			var seen *time.Time
			var tokens, late *string
			if err := rows.Scan(&a.now, &a.epoch, &a.runCancelled, &seen, &tokens, &late); err != nil {
				return err
			}
			a.now, a.ownerSeen = a.now.UTC(), utc(seen)
			key := keys[len(*into)]
			var err error
			if a.tokens, err = readTokens(tokens); err != nil {
				return fmt.Errorf("read tokens of %s: %w", key, err)
			}
			if a.late, err = readLate(late, key); err != nil {
				return fmt.Errorf("read late evidence of %s: %w", key, err)
			}
			*into = append(*into, a)
		}
		return rows.Err()
	})
}

func split(keys []ledger.Key) (runs, names []string) {
	runs, names = make([]string, len(keys)), make([]string, len(keys))
	for n, k := range keys {
		runs[n], names[n] = k.RunID, k.EffectKey
	}
	return runs, names
}

// snapshot puts a row and what stands beside it together.
func (l *Ledger) snapshot(k ledger.Key, row *intentRow, a around) locked {
	out := locked{snap: ledger.Snapshot{
		Key: k, Tokens: a.tokens, Late: a.late, Now: a.now, LedgerID: l.id, Epoch: a.epoch, RunCancelled: a.runCancelled,
		OwnerSeen: a.ownerSeen,
	}}
	if row != nil {
		out.seq, out.snap.Found, out.snap.Intent = row.seq, true, row.intent
	}
	return out
}

// load locks one row and reads all that a move needs, in one round trip.
func (s *session) load(ctx context.Context, k ledger.Key) (locked, error) {
	var row *intentRow
	var beside []around
	s.queueLock(k, false, &row)
	s.queueAround([]ledger.Key{k}, &beside)
	if err := s.flush(ctx); err != nil {
		return locked{}, err
	}
	if len(beside) != 1 {
		return locked{}, fmt.Errorf("read ledger_epochs: %w", ledger.ErrNotMigrated)
	}
	return s.l.snapshot(k, row, beside[0]), nil
}

// aroundSQL reads tokens and late evidence as JSON: one statement for any number of rows.
func (l *Ledger) aroundSQL() string {
	return fmt.Sprintf(`SELECT clock_timestamp(), (SELECT max(epoch) FROM %s), coalesce(r.status = 'cancelled', false), e.last_seen,
(SELECT json_agg(json_build_object('v', t.version, 'd', encode(t.token, 'base64'), 'h', encode(t.hint, 'base64'), 'l', (extract(epoch FROM t.life) * 1000000)::bigint,
 'x', t.excludes_earlier, 'n', t.lane_number, 'm', t.made_at, 'e', t.dead_at IS NOT NULL) ORDER BY t.version)::text
 FROM %s t WHERE t.run_id = u.run_id AND t.effect_key = u.effect_key),
(SELECT json_agg(json_build_object('i', v.id, 'p', v.ledger_epoch, 'f', v.fence_epoch, 'w', v.fence_owner, 'a', v.attempt,
 'o', v.outcome, 'e', v.evidence, 'r', v.reason, 't', v.at) ORDER BY v.at, v.id)::text
 FROM %s v WHERE v.run_id = u.run_id AND v.effect_key = u.effect_key AND v.used_at IS NULL)
FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS u(run_id, effect_key, n)
LEFT JOIN %s i ON i.run_id = u.run_id AND i.effect_key = u.effect_key
LEFT JOIN %s r ON r.id = u.run_id
LEFT JOIN %s e ON e.id = i.fence_owner AND i.fence_owner <> ''
ORDER BY u.n`, l.table("ledger_epochs"), l.table("effect_tokens"), l.table("late_evidence"), l.table("effect_intents"),
		l.table("agent_runs"), l.table("engine_instances"))
}

func readTokens(raw *string) ([]channel.Token, error) {
	if raw == nil {
		return nil, nil
	}
	var all []struct {
		V int       `json:"v"`
		D string    `json:"d"`
		H *string   `json:"h"`
		L int64     `json:"l"`
		X bool      `json:"x"`
		N int64     `json:"n"`
		M time.Time `json:"m"`
		E bool      `json:"e"`
	}
	if err := json.Unmarshal([]byte(*raw), &all); err != nil {
		return nil, err
	}
	tokens := make([]channel.Token, len(all))
	for n, t := range all {
		data, err := base64.StdEncoding.DecodeString(t.D)
		if err != nil {
			return nil, err
		}
		tokens[n] = channel.Token{
			Version: t.V, Data: data, Life: time.Duration(t.L) * time.Microsecond, ExcludesEarlier: t.X, LaneNumber: t.N,
			MadeAt: t.M.UTC(), Dead: t.E,
		}
		if t.H != nil {
			if tokens[n].Hint, err = base64.StdEncoding.DecodeString(*t.H); err != nil {
				return nil, err
			}
		}
	}
	return tokens, nil
}

func readLate(raw *string, k ledger.Key) ([]ledger.LateEvidence, error) {
	if raw == nil {
		return nil, nil
	}
	var all []struct {
		I string          `json:"i"`
		P int64           `json:"p"`
		F int64           `json:"f"`
		W string          `json:"w"`
		A int             `json:"a"`
		O string          `json:"o"`
		E json.RawMessage `json:"e"`
		R string          `json:"r"`
		T time.Time       `json:"t"`
	}
	if err := json.Unmarshal([]byte(*raw), &all); err != nil {
		return nil, err
	}
	late := make([]ledger.LateEvidence, len(all))
	for n, v := range all {
		evidence := string(v.E)
		late[n] = ledger.LateEvidence{
			ID: v.I, Key: k, Fence: fence.Fence{Epoch: v.P, Number: v.F, Owner: v.W}, Attempt: v.A, Outcome: ledger.LateOutcome(v.O),
			Evidence: stored(&evidence), Reason: v.R, At: v.T.UTC(),
		}
	}
	return late, nil
}
