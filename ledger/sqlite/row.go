package sqlite

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pawlworks/pawl/ledger"
)

// columns are those of effect_intents in the order of intentRow.into, which scans them.
const columns = `i.run_id, i.effect_key, i.run_epoch, i.state, i.kind, i.channel, i.payload_digest, i.lane, i.lane_position,
	i.lane_turn_ended, i.approval, i.due_at, i.expires_at, i.created_at, i.fence_owner, i.fence_epoch, i.fence_expires_at,
	i.ledger_epoch, i.probing, i.probe_first, i.starts, i.attempts, i.send_started_at, i.first_sent_at, i.last_possible_send,
	i.doubtful_attempts, i.sheet, i.external_ref, i.accepted_at, i.probe_at, i.probes, i.unknowns, i.absent_since, i.held_at,
	i.hold_reason, i.cancel_requested_at, i.cancel_reason, i.last_error, i.abandoned_as, i.abandon_reason, i.late_ref,
	i.committed_at, i.established, i.decided_by, i.trace_parent, i.pruned_at, i.payload`

// intentRow is a row as it is scanned.
type intentRow struct {
	intent                    ledger.Intent
	runEpoch, position        *int64
	lane, approval, sheet     *string
	doubts                    string
	externalRef, lateEvidence *string
	trace                     *string
}

func (r *intentRow) into() []any {
	i := &r.intent
	return []any{
		&i.RunID, &i.EffectKey, &r.runEpoch, &i.State, &i.Kind, &i.Channel, &i.PayloadDigest, &r.lane, &r.position,
		&i.LaneTurnEnded, &r.approval, scanTime{&i.DueAt}, scanTime{&i.ExpiresAt}, scanTime{&i.CreatedAt}, &i.FenceOwner, &i.FenceNumber,
		scanTime{&i.FenceExpiresAt}, &i.LedgerEpoch, &i.Probing, &i.ProbeFirst, &i.Starts, &i.Attempts, scanTime{&i.SendStartedAt},
		scanTime{&i.FirstSentAt}, scanTime{&i.LastPossibleSend}, &r.doubts, &r.sheet, &r.externalRef, scanTime{&i.AcceptedAt},
		scanTime{&i.ProbeAt}, &i.Probes, &i.Unknowns, scanTime{&i.AbsentSince}, scanTime{&i.HeldAt}, &i.HoldReason,
		scanTime{&i.CancelRequestedAt}, &i.CancelReason, &i.LastError, &i.AbandonedAs, &i.AbandonReason, &r.lateEvidence,
		scanTime{&i.CommittedAt}, &i.Established, &i.By, &r.trace, scanTime{&i.PrunedAt}, &i.Payload,
	}
}

// read decodes what was scanned.
func (r *intentRow) read() (ledger.Intent, error) {
	i := r.intent
	if r.runEpoch != nil {
		i.RunNumber = *r.runEpoch
	}
	if r.position != nil {
		i.LanePosition = *r.position
	}
	if r.lane != nil {
		i.Lane = *r.lane
	}
	i.TraceParent = ledger.StoredTrace(r.trace)
	i.Evidence, i.LateEvidence = rawJSON(r.externalRef), rawJSON(r.lateEvidence)
	if r.approval != nil {
		i.Approval = new(ledger.Approval)
		if err := json.Unmarshal([]byte(*r.approval), i.Approval); err != nil {
			return i, fmt.Errorf("read approval of %s: %w", i.Key, err)
		}
	}
	if r.sheet != nil {
		if err := json.Unmarshal([]byte(*r.sheet), &i.Sheet); err != nil {
			return i, fmt.Errorf("read stamped sheet of %s: %w", i.Key, err)
		}
	}
	if r.doubts != "[]" {
		if err := json.Unmarshal([]byte(r.doubts), &i.Doubts); err != nil {
			return i, fmt.Errorf("read doubtful attempts of %s: %w", i.Key, err)
		}
	}
	return i, nil
}

// mutable are the columns that a step writes, in the order of stepValues.
var mutable = strings.Fields(`state due_at fence_owner fence_epoch fence_expires_at ledger_epoch probing probe_first starts attempts
	send_started_at first_sent_at last_possible_send may_have_taken_effect doubtful_attempts sheet external_ref accepted_at probe_at probes
	unknowns absent_since held_at hold_reason cancel_requested_at cancel_reason last_error abandoned_as abandon_reason late_ref
	committed_at established decided_by lane_turn_ended proof`)

// updateStep writes a step if nobody has moved the row.
var updateStep = "UPDATE effect_intents SET " + strings.Join(mutable, " = ?, ") +
	" = ? WHERE run_id = ? AND effect_key = ? AND state = ? AND fence_epoch = ?"

func stepValues(step ledger.Step) ([]any, error) {
	i := step.To
	doubts, err := jsonText(i.Doubts, len(i.Doubts) == 0)
	if err != nil {
		return nil, err
	}
	if doubts == nil {
		doubts = "[]"
	}
	sheet, err := jsonText(i.Sheet, i.Sheet == (ledger.StampedSheet{}))
	if err != nil {
		return nil, err
	}
	return []any{
		string(i.State), timeText(i.DueAt), i.FenceOwner, i.FenceNumber, timeText(i.FenceExpiresAt), i.LedgerEpoch, i.Probing, i.ProbeFirst,
		i.Starts, i.Attempts, timeText(i.SendStartedAt), timeText(i.FirstSentAt), timeText(i.LastPossibleSend), len(i.Doubts) > 0, doubts,
		sheet, rawText(i.Evidence), timeText(i.AcceptedAt), timeText(i.ProbeAt), i.Probes, i.Unknowns, timeText(i.AbsentSince),
		timeText(i.HeldAt), i.HoldReason, timeText(i.CancelRequestedAt), i.CancelReason, i.LastError, string(i.AbandonedAs), i.AbandonReason,
		rawText(i.LateEvidence), timeText(i.CommittedAt), string(i.Established), i.By, i.LaneTurnEnded, string(step.Proof),
		i.RunID, i.EffectKey, string(step.From.State), step.From.FenceNumber,
	}, nil
}

// jsonText is v as JSON text; nil, which is NULL, where it is empty.
func jsonText(v any, empty bool) (any, error) {
	if empty {
		return nil, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write as JSON: %w", err)
	}
	return string(raw), nil
}

func rawText(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return string(raw)
}

func rawJSON(s *string) json.RawMessage {
	if s == nil {
		return nil
	}
	return json.RawMessage(*s)
}
