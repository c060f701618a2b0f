package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

// Intent implements [ledger.Reader].
func (l *Ledger) Intent(ctx context.Context, k ledger.Key) (i ledger.Intent, tokens []channel.Token, err error) {
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		if i, err = s.intent(ctx, k); err != nil {
			return err
		}
		tokens, err = s.tokens(ctx, k)
		return err
	})
	return i, tokens, err
}

// Intents implements [ledger.Reader].
func (l *Ledger) Intents(ctx context.Context, f ledger.Filter) (all []ledger.Intent, next ledger.Cursor, err error) {
	query, args, limit, err := selectPage(f)
	if err != nil {
		return nil, "", err
	}
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		all, next = nil, ""
		return s.each(ctx, query, args, func(scan func(...any) error) error {
			var row intentRow
			var seq int64
			if err := scan(append(row.into(), &seq)...); err != nil {
				return err
			}
			if len(all) == limit { // one more than was asked for: there is another page
				next = ledger.Cursor(strconv.FormatInt(seq+1, 10))
				return nil
			}
			i, err := row.read()
			all = append(all, i)
			return err
		})
	})
	if err != nil {
		return nil, "", fmt.Errorf("list intents: %w", err)
	}
	return all, next, nil
}

// selectPage is the query of a list: newest claim first, which is the order of seq.
func selectPage(f ledger.Filter) (query string, args []any, limit int, err error) {
	limit = f.Limit
	switch {
	case limit < 0 || limit > maxPage:
		return "", nil, 0, &ledger.InvalidError{Field: "limit", Reason: fmt.Sprintf("is %d; use 1 to %d, or 0 for %d", limit, maxPage, defaultPage)}
	case limit == 0:
		limit = defaultPage
	}
	where := []string{"1"}
	add := func(condition string, values ...any) {
		where, args = append(where, condition), append(args, values...)
	}
	if f.RunID != "" {
		add("i.run_id = ?", f.RunID)
	}
	if f.Channel != "" {
		add("i.channel = ?", f.Channel)
	}
	if f.State != "" {
		add("i.state = ?", string(f.State))
	}
	if f.Held {
		add("i.held_at IS NOT NULL")
	}
	if f.Held || f.State == ledger.StateIntent || f.State == ledger.StateDispatched {
		where[0] = "i.state IN ('intent', 'dispatched')" // in the words of the index on what lives
	}
	if f.After != "" {
		before, err := strconv.ParseInt(string(f.After), 10, 64)
		if err != nil {
			return "", nil, 0, &ledger.InvalidError{Field: "after", Reason: "is no cursor of this ledger; pass what the page before returned"}
		}
		add("i.seq < ?", before)
	}
	return "SELECT " + columns + ", i.seq FROM effect_intents i WHERE " + strings.Join(where, " AND ") + " ORDER BY i.seq DESC LIMIT ?",
		append(args, limit+1), limit, nil
}

// Log implements [ledger.Reader].
func (l *Ledger) Log(ctx context.Context, k ledger.Key) (all []ledger.LogEntry, err error) {
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		all = nil
		return s.each(ctx, "SELECT id, attempt, outcome, at, detail FROM outbox_dispatch_log WHERE run_id = ? AND effect_key = ? ORDER BY at, id",
			[]any{k.RunID, k.EffectKey}, func(scan func(...any) error) error {
				e := ledger.LogEntry{Key: k}
				var detail *string
				err := scan(&e.ID, &e.Attempt, &e.Outcome, scanTime{&e.At}, &detail)
				e.Detail = json.RawMessage(rawJSON(detail))
				all = append(all, e)
				return err
			})
	})
	if err != nil {
		return nil, fmt.Errorf("read log of %s: %w", k, err)
	}
	return all, nil
}

// LateEvidence implements [ledger.Reader].
func (l *Ledger) LateEvidence(ctx context.Context, k ledger.Key) (all []ledger.LateEvidence, err error) {
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		all, err = s.late(ctx, k, false)
		return err
	})
	return all, err
}

// selectLive counts in the order of the index on what lives. It reads no payload: that is the last column but for those added later.
const selectLive = `SELECT channel,
	count(*) FILTER (WHERE state = 'intent'),
	count(*) FILTER (WHERE state = 'dispatched' AND held_at IS NULL AND accepted_at IS NULL),
	count(*) FILTER (WHERE state = 'dispatched' AND held_at IS NULL AND accepted_at IS NOT NULL),
	count(*) FILTER (WHERE held_at IS NOT NULL),
	min(due_at) FILTER (WHERE state = 'intent'),
	min(held_at),
	min(coalesce(send_started_at, fence_expires_at)) FILTER (WHERE state = 'dispatched' AND held_at IS NULL AND accepted_at IS NULL)
	FROM effect_intents WHERE state IN ('intent', 'dispatched') GROUP BY channel`

// Stats implements [ledger.Reader]. What lives is counted from effect_intents by way of an index; what has ended from counters that a
// trigger keeps.
func (l *Ledger) Stats(ctx context.Context) (st ledger.Stats, err error) {
	now, err := l.clock.now()
	if err != nil {
		return st, err
	}
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		st = ledger.Stats{}
		if err := s.each(ctx, selectLive, nil, func(scan func(...any) error) error {
			var name string
			var c ledger.ChannelStats
			var waiting, unknown, unresolved time.Time
			err := scan(&name, &c.Waiting, &c.Dispatched, &c.Accepted, &c.Held, scanTime{&waiting}, scanTime{&unknown}, scanTime{&unresolved})
			c.OldestWaiting, c.OldestUnknown, c.OldestUnresolved = age(now, waiting), age(now, unknown), age(now, unresolved)
			st.Add(name, c)
			return err
		}); err != nil {
			return err
		}
		return s.row(ctx, `SELECT (SELECT n FROM intent_counts WHERE state = 'committed'), (SELECT n FROM intent_counts WHERE state = 'abandoned'),
			(SELECT count(*) FROM receipts WHERE owed = 1)`, nil, &st.Committed, &st.Abandoned, &st.OwedReceipts)
	})
	if err != nil {
		return ledger.Stats{}, fmt.Errorf("count: %w", err)
	}
	return st, nil
}

// age is how long ago t was; 0 for no time, or one to come.
func age(now, t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(0, now.Sub(t))
}
