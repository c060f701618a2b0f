package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawlworks/pawl/ledger"
)

// column is one column of effect_intents that a move may change: how it is cast and what an intent says it is. The order is that of bits
// in a [mask].
type column struct {
	name, cast string
	value      func(i *ledger.Intent) any
}

// mask says which of the columns an update names. An update names what changes and nothing more, so that the statement is
// short and the triggers on columns that never change stay asleep.
type mask uint64

func changing() []column {
	return []column{
		{"state", "text", func(i *ledger.Intent) any { return string(i.State) }},
		{"fence_owner", "text", func(i *ledger.Intent) any { return i.FenceOwner }},
		{"fence_epoch", "bigint", func(i *ledger.Intent) any { return i.FenceNumber }},
		{"fence_expires_at", "timestamptz", func(i *ledger.Intent) any { return timeOrNull(i.FenceExpiresAt) }},
		{"ledger_epoch", "bigint", func(i *ledger.Intent) any { return i.LedgerEpoch }},
		{"probing", "boolean", func(i *ledger.Intent) any { return i.Probing }},
		{"probe_first", "boolean", func(i *ledger.Intent) any { return i.ProbeFirst }},
		{"send_started_at", "timestamptz", func(i *ledger.Intent) any { return timeOrNull(i.SendStartedAt) }},
		{"first_sent_at", "timestamptz", func(i *ledger.Intent) any { return timeOrNull(i.FirstSentAt) }},
		{"last_possible_send", "timestamptz", func(i *ledger.Intent) any { return timeOrNull(i.LastPossibleSend) }},
		{"may_have_taken_effect", "boolean", func(i *ledger.Intent) any { return len(i.Doubts) > 0 }},
		{"doubtful_attempts", "int[]", func(i *ledger.Intent) any { return intArray(i.Doubts) }},
		{"external_ref", "jsonb", func(i *ledger.Intent) any { return jsonOrNull(i.Evidence) }},
		{"late_ref", "jsonb", func(i *ledger.Intent) any { return jsonOrNull(i.LateEvidence) }},
		{"starts", "int", func(i *ledger.Intent) any { return int32(i.Starts) }},
		{"attempts", "int", func(i *ledger.Intent) any { return int32(i.Attempts) }},
		{"last_error", "text", func(i *ledger.Intent) any { return i.LastError }},
		{"lane_turn_ended", "boolean", func(i *ledger.Intent) any { return i.LaneTurnEnded }},
		{"due_at", "timestamptz", func(i *ledger.Intent) any { return timeOrNull(i.DueAt) }},
		{"cancel_requested_at", "timestamptz", func(i *ledger.Intent) any { return timeOrNull(i.CancelRequestedAt) }},
		{"cancel_reason", "text", func(i *ledger.Intent) any { return i.CancelReason }},
		{"accepted_at", "timestamptz", func(i *ledger.Intent) any { return timeOrNull(i.AcceptedAt) }},
		{"probe_at", "timestamptz", func(i *ledger.Intent) any { return timeOrNull(i.ProbeAt) }},
		{"probes", "int", func(i *ledger.Intent) any { return int32(i.Probes) }},
		{"unknowns", "int", func(i *ledger.Intent) any { return int32(i.Unknowns) }},
		{"absent_since", "timestamptz", func(i *ledger.Intent) any { return timeOrNull(i.AbsentSince) }},
		{"held_at", "timestamptz", func(i *ledger.Intent) any { return timeOrNull(i.HeldAt) }},
		{"hold_reason", "text", func(i *ledger.Intent) any { return i.HoldReason }},
		{"abandon_reason", "text", func(i *ledger.Intent) any { return i.AbandonReason }},
		{"abandoned_as", "text", func(i *ledger.Intent) any { return string(i.AbandonedAs) }},
		{"established", "text", func(i *ledger.Intent) any { return string(i.Established) }},
		{"decided_by", "text", func(i *ledger.Intent) any { return i.By }},
		{"sheet", "jsonb", func(i *ledger.Intent) any { return sheetOrNull(i.Sheet) }},
		{"committed_at", "timestamptz", func(i *ledger.Intent) any { return timeOrNull(i.CommittedAt) }},
	}
}

// changed returns the columns in which from and to differ.
func changed(columns []column, from, to *ledger.Intent) mask {
	var m mask
	for n, c := range columns {
		if a, b := c.value(from), c.value(to); !same(a, b) {
			m |= 1 << n
		}
	}
	return m
}

func same(a, b any) bool {
	x, ok := a.(time.Time)
	if !ok {
		return a == b
	}
	y, ok := b.(time.Time)
	return ok && x.Equal(y)
}

// updateSQL is the update of many rows at once that names the columns in m, and the proof. Each row must still be in the state and under the
// fence number that it was read in; if one is not, the statement fails and with it the transaction.
func (l *Ledger) updateSQL(m mask, proof bool) string {
	set := []string{}
	arrays := []string{"$1::uuid[]", "$2::text[]", "$3::text[]", "$4::bigint[]"}
	names := []string{"u_run", "u_key", "u_state", "u_fence"}
	add := func(name, cast string) {
		carried, expression := cast, "u."+name
		if cast == "int[]" { // an array of arrays must be rectangular
			carried, expression = "text", "u."+name+"::int[]"
		}
		arrays = append(arrays, fmt.Sprintf("$%d::%s[]", len(arrays)+1, carried))
		names = append(names, name)
		set = append(set, name+" = "+expression)
	}
	for n, c := range l.columns {
		if m&(1<<n) != 0 {
			add(c.name, c.cast)
		}
	}
	if proof {
		add("proof", "text")
	}
	return fmt.Sprintf(`WITH moved AS (
UPDATE %s i SET %s FROM unnest(%s) AS u(%s)
WHERE i.run_id = u_run AND i.effect_key = u_key AND i.state = u_state AND i.fence_epoch = u_fence RETURNING 1)
SELECT 1 / (CASE WHEN count(*) = cardinality($1::uuid[]) THEN 1 ELSE 0 END) FROM moved`,
		l.table("effect_intents"), strings.Join(set, ", "), strings.Join(arrays, ", "), strings.Join(names, ", "))
}

func timeOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

func jsonOrNull(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return string(raw)
}

func sheetOrNull(s ledger.StampedSheet) any {
	if s == (ledger.StampedSheet{}) {
		return nil
	}
	raw, err := json.Marshal(s)
	if err != nil { // a struct of texts, times and flags cannot fail
		return nil
	}
	return string(raw)
}

func intArray(values []int) any {
	return "{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(values), " ", ","), "[]") + "}"
}
