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
	opened       *time.Time // NULL for the first epoch
	horizon      int64      // microseconds, as is fenceTerm
	fenceTerm    int64
	runCancelled bool
	ownerSeen    time.Time
	tokens       []channel.Token
	late         []ledger.LateEvidence
}

// queueAround queues the reading of what stands beside the rows, in their order.
func (s *session) queueAround(keys []ledger.Key, into *[]around) {
	sql, args := s.l.sql.aroundOne, []any{}
	if len(keys) == 1 {
		args = append(args, keys[0].RunID, keys[0].EffectKey)
	} else {
		runs, names := split(keys)
		sql, args = s.l.sql.around, append(args, runs, names)
	}
	s.queue(sql, args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var a around
			var seen *time.Time
			var tokens, late *string
			if err := rows.Scan(&a.now, &a.epoch, &a.opened, &a.horizon, &a.fenceTerm, &a.runCancelled, &seen, &tokens, &late); err != nil {
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
		OwnerSeen: a.ownerSeen, Opened: utc(a.opened), Horizon: time.Duration(a.horizon) * time.Microsecond,
		FenceTerm: time.Duration(a.fenceTerm) * time.Microsecond,
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

// aroundSQL reads tokens and late evidence as JSON, for rows that u names: by arrays, or one.
func (l *Ledger) aroundSQL(one bool) string {
	from, key, order := `, unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS u(run, key, n)`, [2]string{"u.run", "u.key"}, ` ORDER BY u.n`
	if one {
		from, key, order = ``, [2]string{"$1::uuid", "$2::text"}, ``
	}
	at := func(table string) string {
		return fmt.Sprintf(`%[1]s.run_id = %[2]s AND %[1]s.effect_key = %[3]s`, table, key[0], key[1])
	}
	return fmt.Sprintf(`SELECT clock_timestamp(), e.epoch, CASE WHEN e.epoch > 1 THEN e.opened_at END,
(extract(epoch FROM e.horizon) * 1000000)::bigint, (extract(epoch FROM e.fence_term) * 1000000)::bigint,
coalesce((SELECT r.status = 'cancelled' FROM %s r WHERE r.id = %s), false),
(SELECT n.last_seen FROM %s n WHERE n.id = (SELECT i.fence_owner FROM %s i WHERE %s)),
(SELECT json_agg(json_build_object('v', t.version, 'd', encode(t.token, 'base64'), 'h', encode(t.hint, 'base64'),
 'l', (extract(epoch FROM t.life) * 1000000)::bigint, 'x', t.excludes_earlier, 'n', t.lane_number, 'm', t.made_at,
 'e', t.dead_at IS NOT NULL) ORDER BY t.version)::text FROM %s t WHERE %s),
(SELECT json_agg(json_build_object('i', v.id, 'p', v.ledger_epoch, 'f', v.fence_epoch, 'w', v.fence_owner, 'a', v.attempt,
 'o', v.outcome, 'e', v.evidence, 'r', v.reason, 't', v.at) ORDER BY v.at, v.id)::text FROM %s v WHERE %s AND v.used_at IS NULL)
FROM (SELECT epoch, opened_at, horizon, fence_term FROM %s ORDER BY epoch DESC LIMIT 1) e%s%s`, l.table("agent_runs"), key[0], l.table("engine_instances"), l.table("effect_intents"), at("i"),
		l.table("effect_tokens"), at("t"), l.table("late_evidence"), at("v"),
		l.table("ledger_epochs"), from, order)
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
