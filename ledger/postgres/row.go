package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/ledger"
)

// intentColumns is the select list that [intentRow] reads, for effect_intents AS i. Everything is cast so that any driver reads it alike.
const intentColumns = `i.run_id::text, i.effect_key, i.run_epoch, i.state, i.kind, i.channel, i.payload, i.payload_digest,
i.lane, i.lane_position, i.lane_turn_ended, i.approval::text, i.due_at, i.expires_at, i.created_at,
i.fence_owner, i.fence_epoch, i.fence_expires_at, i.ledger_epoch, i.probing, i.probe_first,
i.starts, i.attempts, i.send_started_at, i.first_sent_at, i.last_possible_send, to_json(i.doubtful_attempts)::text, i.sheet::text,
i.external_ref::text, i.accepted_at, i.probe_at, i.probes, i.unknowns, i.absent_since, i.held_at, i.hold_reason,
i.cancel_requested_at, i.cancel_reason, i.last_error, i.abandoned_as, i.abandon_reason, i.late_ref::text, i.committed_at,
i.established, i.decided_by, i.trace_parent, i.pruned_at, i.queue_seq`

// intentRow is a row of effect_intents as it was read.
type intentRow struct {
	intent ledger.Intent
	seq    int64 // of its queue row

	lane, approval, sheet, evidence, late, trace                                              *string
	position                                                                                  *int64
	payload, doubts                                                                           string
	due, expires, fenceExpires, sent, first, last, accepted, probe, absent, held, cancel, end *time.Time
	pruned                                                                                    *time.Time
}

func (r *intentRow) targets() []any {
	i := &r.intent
	return []any{
		&i.RunID, &i.EffectKey, &i.RunNumber, (*string)(&i.State), &i.Kind, &i.Channel, &r.payload, &i.PayloadDigest,
		&r.lane, &r.position, &i.LaneTurnEnded, &r.approval, &r.due, &r.expires, &i.CreatedAt,
		&i.FenceOwner, &i.FenceNumber, &r.fenceExpires, &i.LedgerEpoch, &i.Probing, &i.ProbeFirst,
		&i.Starts, &i.Attempts, &r.sent, &r.first, &r.last, &r.doubts, &r.sheet,
		&r.evidence, &r.accepted, &r.probe, &i.Probes, &i.Unknowns, &r.absent, &r.held, &i.HoldReason,
		&r.cancel, &i.CancelReason, &i.LastError, (*string)(&i.AbandonedAs), &i.AbandonReason, &r.late, &r.end,
		(*string)(&i.Established), &i.By, &r.trace, &r.pruned, &r.seq,
	}
}

// finish fills what the row's targets could not hold.
func (r *intentRow) finish() error {
	i := &r.intent
	i.Payload = []byte(r.payload)
	if r.lane != nil {
		i.Lane = *r.lane
	}
	if r.position != nil {
		i.LanePosition = *r.position
	}
	for _, t := range []struct {
		from *time.Time
		to   *time.Time
	}{
		{r.due, &i.DueAt}, {r.expires, &i.ExpiresAt}, {r.fenceExpires, &i.FenceExpiresAt}, {r.sent, &i.SendStartedAt},
		{r.first, &i.FirstSentAt}, {r.last, &i.LastPossibleSend}, {r.accepted, &i.AcceptedAt}, {r.probe, &i.ProbeAt},
		{r.absent, &i.AbsentSince}, {r.held, &i.HeldAt}, {r.cancel, &i.CancelRequestedAt}, {r.end, &i.CommittedAt},
		{r.pruned, &i.PrunedAt},
	} {
		if t.from != nil {
			*t.to = t.from.UTC()
		}
	}
	i.CreatedAt = i.CreatedAt.UTC()
	if r.doubts != "[]" {
		if err := json.Unmarshal([]byte(r.doubts), &i.Doubts); err != nil {
			return fmt.Errorf("read doubtful_attempts of %s: %w", i.Key, err)
		}
	}
	if r.approval != nil {
		i.Approval = &ledger.Approval{}
		if err := json.Unmarshal([]byte(*r.approval), i.Approval); err != nil {
			return fmt.Errorf("read approval of %s: %w", i.Key, err)
		}
	}
	if r.sheet != nil {
		if err := json.Unmarshal([]byte(*r.sheet), &i.Sheet); err != nil {
			return fmt.Errorf("read sheet of %s: %w", i.Key, err)
		}
	}
	i.TraceParent = ledger.StoredTrace(r.trace)
	i.Evidence, i.LateEvidence = stored(r.evidence), stored(r.late)
	return nil
}

// stored returns evidence in the form in which it was written: the database's own form has other spaces and another order.
func stored(raw *string) json.RawMessage {
	if raw == nil {
		return nil
	}
	form, err := canonical.Transform([]byte(*raw))
	if err != nil {
		return json.RawMessage(*raw)
	}
	return form
}

// utc returns the time, or the zero time for NULL.
func utc(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// quoteName quotes an identifier.
func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
