package postgres

import (
	"encoding/json"
	"fmt"
	"sort"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// writer gathers the changes of any number of rows and writes each kind in one statement. Rows are locked before; lanes are locked
// before queue rows, by everybody.
type writer struct {
	l      *Ledger
	levels []map[stepKind]*stepGroup // first steps of all rows, second steps, …
	tokens []tokenRow
	dead   []ledger.Key
	late   []ledger.LateEvidence
	used   []string
	ids    [][4]string // channel, evidence id, run, key
	raise  map[string]int64
	turns  []turn
	upsert []queueRow
	remove []int64
	log    []ledger.LogEntry
	paper  []receiptRow
	ended  [2]int // committed, abandoned
	now    time.Time
}

type stepKind struct {
	changed mask
	proof   bool
}

type stepGroup struct {
	runs, keys, states []string
	fences             []int64
	values             [][]any // by column of the mask, then by row
	proofs             []string
}

type tokenRow struct {
	key     ledger.Key
	channel string
	token   channel.Token
}

type turn struct {
	lane  string
	place int64
}

type queueRow struct {
	seq     int64
	key     ledger.Key
	channel string
	phase   ledger.Phase
	due     time.Time
}

// sink takes statements whose answers nobody reads.
type sink interface{ put(sql string, args ...any) }

// add takes what one move does to one row.
func (w *writer) add(row locked, c ledger.Change) error {
	s := row.snap
	w.now = s.Now
	for level, step := range c.Steps {
		w.step(level, step)
	}
	if c.NewToken != nil {
		w.tokens = append(w.tokens, tokenRow{s.Key, s.Intent.Channel, *c.NewToken})
		if c.RaiseLane && s.Intent.Lane != "" {
			if w.raise == nil {
				w.raise = map[string]int64{}
			}
			w.raise[s.Intent.Lane] = max(w.raise[s.Intent.Lane], c.NewToken.LaneNumber)
		}
	}
	if c.TokensDead {
		w.dead = append(w.dead, s.Key)
	}
	if c.NewLate != nil {
		late := *c.NewLate
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("make an id: %w", err)
		}
		late.ID = id.String()
		w.late = append(w.late, late)
	}
	w.used = append(w.used, c.UsedLate...)
	if c.EvidenceID != "" {
		w.ids = append(w.ids, [4]string{s.Intent.Channel, c.EvidenceID, s.Key.RunID, s.Key.EffectKey})
	}
	if c.EndTurn {
		w.turns = append(w.turns, turn{s.Intent.Lane, s.Intent.LanePosition})
	}
	if len(c.Steps) > 0 {
		w.hint(row, c)
	}
	for _, entry := range c.Log {
		if err := w.logged(entry, s.Now); err != nil {
			return err
		}
	}
	for _, e := range c.Receipts {
		r, err := w.l.sign(e, s.Now)
		if err != nil {
			return err
		}
		w.paper = append(w.paper, r)
	}
	return nil
}

// wants reports whether a row of the batch takes the evidence id.
func (w *writer) wants(channelName, id string) bool {
	for _, have := range w.ids {
		if have[0] == channelName && have[1] == id {
			return true
		}
	}
	return false
}

func (w *writer) step(level int, step ledger.Step) {
	if !step.From.State.Terminal() && step.To.State.Terminal() {
		if step.To.State == ledger.StateCommitted {
			w.ended[0]++
		} else {
			w.ended[1]++
		}
	}
	kind := stepKind{changed: changed(w.l.columns, &step.From, &step.To), proof: !step.From.State.Terminal()}
	if kind.changed == 0 {
		return // only the queue is told
	}
	for len(w.levels) <= level {
		w.levels = append(w.levels, map[stepKind]*stepGroup{})
	}
	g := w.levels[level][kind]
	if g == nil {
		g = &stepGroup{}
		w.levels[level][kind] = g
	}
	g.runs, g.keys = append(g.runs, step.From.RunID), append(g.keys, step.From.EffectKey)
	g.states, g.fences = append(g.states, string(step.From.State)), append(g.fences, step.From.FenceNumber)
	at := 0
	for n, c := range w.l.columns {
		if kind.changed&(1<<n) == 0 {
			continue
		}
		if len(g.values) <= at {
			g.values = append(g.values, nil)
		}
		g.values[at] = append(g.values[at], c.value(&step.To))
		at++
	}
	g.proofs = append(g.proofs, string(step.Proof))
}

// hint writes the queue row, unless it says so already.
func (w *writer) hint(row locked, c ledger.Change) {
	if c.Phase == ledger.PhaseDone {
		if !row.snap.Intent.State.Terminal() {
			w.remove = append(w.remove, row.seq)
		}
		return
	}
	if phase, due := hintOf(row.snap.Intent); phase == c.Phase && due.Equal(c.DueAt) && c.NewLate == nil {
		return
	}
	w.upsert = append(w.upsert, queueRow{row.seq, row.snap.Key, row.snap.Intent.Channel, c.Phase, c.DueAt})
}

// hintOf is what the queue should say of a row as it is.
func hintOf(i ledger.Intent) (ledger.Phase, time.Time) {
	switch {
	case i.State.Terminal():
		return ledger.PhaseDone, time.Time{}
	case i.State == ledger.StateIntent:
		return ledger.PhaseSend, i.DueAt
	case i.FenceOwner == "" && !i.ProbeAt.IsZero():
		return ledger.PhaseLook, i.ProbeAt
	}
	return ledger.PhaseLook, i.FenceExpiresAt
}

func (w *writer) logged(e ledger.LogEntry, now time.Time) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make an id: %w", err)
	}
	e.ID, e.At = id.String(), now
	w.log = append(w.log, e)
	return nil
}

// queue queues all that was gathered.
func (w *writer) queue(s sink) {
	q := &w.l.sql
	w.queueTokens(s)
	w.queueLate(s)
	for _, level := range w.levels {
		for kind, g := range level {
			args := []any{g.runs, g.keys, g.states, g.fences}
			for _, v := range g.values {
				args = append(args, v)
			}
			if kind.proof {
				args = append(args, g.proofs)
			}
			s.put(w.l.update(kind), args...)
		}
	}
	for _, id := range w.ids {
		s.put(q.evidenceID, id[0], id[1], id[2], id[3])
	}
	lanes := make([]string, 0, len(w.raise))
	for lane := range w.raise {
		lanes = append(lanes, lane)
	}
	sort.Strings(lanes)
	for _, lane := range lanes {
		s.put(q.raiseLane, lane, w.raise[lane])
	}
	sort.Slice(w.turns, func(a, b int) bool {
		return w.turns[a].lane < w.turns[b].lane || w.turns[a].lane == w.turns[b].lane && w.turns[a].place < w.turns[b].place
	})
	for _, t := range w.turns {
		s.put(q.advance, t.lane, t.place)
	}
	w.queueHints(s)
	w.queueLog(s)
	w.queueReceipts(s)
	if w.ended != [2]int{} {
		s.put(q.count, w.ended[0], w.ended[1])
	}
}

func (w *writer) queueTokens(s sink) {
	for _, k := range w.dead {
		s.put(w.l.sql.deadTokens, k.RunID, k.EffectKey, w.now)
	}
	for _, t := range w.tokens {
		var hint []byte
		if len(t.token.Hint) > 0 {
			hint = t.token.Hint
		}
		s.put(w.l.sql.token, t.key.RunID, t.key.EffectKey, t.token.Version, t.channel, t.token.Digest(), t.token.Data, hint,
			t.token.Life.Microseconds(), t.token.ExcludesEarlier, t.token.LaneNumber, t.token.MadeAt)
	}
}

func (w *writer) queueLate(s sink) {
	for _, v := range w.late {
		s.put(w.l.sql.late, v.ID, v.Key.RunID, v.Key.EffectKey, v.Fence.Epoch, v.Fence.Number, v.Fence.Owner, v.Attempt,
			string(v.Outcome), string(v.Evidence), v.Reason, v.At)
	}
	if len(w.used) > 0 {
		s.put(w.l.sql.usedLate, w.used, w.now)
	}
}

func (w *writer) queueHints(s sink) {
	if len(w.remove) > 0 {
		s.put(w.l.sql.dequeue, w.remove)
	}
	if len(w.upsert) == 0 {
		return
	}
	sort.Slice(w.upsert, func(a, b int) bool { return w.upsert[a].seq < w.upsert[b].seq })
	n := len(w.upsert)
	seqs, runs, keys := make([]int64, n), make([]string, n), make([]string, n)
	channels, phases, dues := make([]string, n), make([]string, n), make([]time.Time, n)
	for i, u := range w.upsert {
		seqs[i], runs[i], keys[i] = u.seq, u.key.RunID, u.key.EffectKey
		channels[i], phases[i], dues[i] = u.channel, string(u.phase), u.due
	}
	s.put(w.l.sql.enqueue, seqs, runs, keys, channels, phases, dues)
}

func (w *writer) queueLog(s sink) {
	if len(w.log) == 0 {
		return
	}
	n := len(w.log)
	ids, runs, keys, outcomes := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	attempts, at, details := make([]int32, n), make([]time.Time, n), make([]*string, n)
	for i, e := range w.log {
		ids[i], runs[i], keys[i], outcomes[i] = e.ID, e.Key.RunID, e.Key.EffectKey, string(e.Outcome)
		attempts[i], at[i], details[i] = int32(e.Attempt), e.At, textOrNull(e.Detail)
	}
	s.put(w.l.sql.log, ids, runs, keys, attempts, outcomes, at, details)
}

func textOrNull(raw json.RawMessage) *string {
	if len(raw) == 0 {
		return nil
	}
	text := string(raw)
	return &text
}
