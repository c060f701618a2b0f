package command

import (
	"encoding/json"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// intentView is an intent as JSON. The fields are stable.
type intentView struct {
	RunID         string `json:"run_id"`
	EffectKey     string `json:"effect_key"`
	Channel       string `json:"channel"`
	Kind          string `json:"kind"`
	State         string `json:"state"`   // intent, dispatched, committed, abandoned
	Outcome       string `json:"outcome"` // in words
	PayloadDigest string `json:"payload_digest"`
	Lane          string `json:"lane,omitempty"`

	FenceNumber int64  `json:"fence_number"` // what resolve wants as --number
	FenceOwner  string `json:"fence_owner,omitempty"`
	LedgerEpoch int64  `json:"ledger_epoch"`

	Starts             int   `json:"starts"`
	Attempts           int   `json:"attempts"`
	Probes             int   `json:"probes"`
	MayHaveTakenEffect bool  `json:"may_have_taken_effect"`
	DoubtfulAttempts   []int `json:"doubtful_attempts,omitempty"`

	CreatedAt        time.Time `json:"created_at"`
	DueAt            time.Time `json:"due_at,omitzero"`
	ExpiresAt        time.Time `json:"expires_at,omitzero"`
	FirstSentAt      time.Time `json:"first_sent_at,omitzero"`
	LastPossibleSend time.Time `json:"last_possible_send,omitzero"`
	AcceptedAt       time.Time `json:"accepted_at,omitzero"`
	HeldAt           time.Time `json:"held_at,omitzero"`
	NextLookAt       time.Time `json:"next_look_at,omitzero"`
	EndedAt          time.Time `json:"ended_at,omitzero"`

	HoldReason    string           `json:"hold_reason,omitempty"`
	AbandonedAs   string           `json:"abandoned_as,omitempty"` // never_sent, refused, failed_outside, unknown
	AbandonReason string           `json:"abandon_reason,omitempty"`
	CancelReason  string           `json:"cancel_reason,omitempty"`
	LastError     string           `json:"last_error,omitempty"`
	Established   string           `json:"established,omitempty"` // send, probe, person, late
	By            string           `json:"by,omitempty"`
	Evidence      json.RawMessage  `json:"evidence,omitempty"`
	LateEvidence  json.RawMessage  `json:"late_evidence,omitempty"`
	Approval      *ledger.Approval `json:"approval,omitempty"`
}

func viewIntent(i ledger.Intent) intentView {
	return intentView{
		RunID: i.RunID, EffectKey: i.EffectKey, Channel: i.Channel, Kind: i.Kind, State: string(i.State), Outcome: i.Outcome(),
		PayloadDigest: i.PayloadDigest, Lane: i.Lane, FenceNumber: i.FenceNumber, FenceOwner: i.FenceOwner, LedgerEpoch: i.LedgerEpoch,
		Starts: i.Starts, Attempts: i.Attempts, Probes: i.Probes, MayHaveTakenEffect: i.InDoubt() && i.State != ledger.StateCommitted, DoubtfulAttempts: i.Doubts,
		CreatedAt: i.CreatedAt, DueAt: i.DueAt, ExpiresAt: i.ExpiresAt, FirstSentAt: i.FirstSentAt, LastPossibleSend: i.LastPossibleSend,
		AcceptedAt: i.AcceptedAt, HeldAt: i.HeldAt, NextLookAt: i.ProbeAt, EndedAt: i.CommittedAt, HoldReason: i.HoldReason,
		AbandonedAs: string(i.AbandonedAs), AbandonReason: i.AbandonReason, CancelReason: i.CancelReason, LastError: i.LastError,
		Established: string(i.Established), By: i.By, Evidence: i.Evidence, LateEvidence: i.LateEvidence, Approval: i.Approval,
	}
}

// tokenView is a token without its data, which may hold personal or signed content.
type tokenView struct {
	Version int       `json:"version"`
	Digest  string    `json:"digest"`
	Bytes   int       `json:"bytes"`
	MadeAt  time.Time `json:"made_at,omitzero"`
	Dead    bool      `json:"dead"`
}

type logView struct {
	At      time.Time       `json:"at"`
	Outcome string          `json:"outcome"`
	Attempt int             `json:"attempt"`
	Detail  json.RawMessage `json:"detail,omitempty"`
}

type lateView struct {
	At       time.Time       `json:"at"`
	Outcome  string          `json:"outcome"`
	Attempt  int             `json:"attempt"`
	Fence    string          `json:"fence"`
	Evidence json.RawMessage `json:"evidence,omitempty"`
	Reason   string          `json:"reason,omitempty"`
}

type receiptView struct {
	ID       string    `json:"id"`
	Outcome  string    `json:"outcome"`
	IssuedAt time.Time `json:"issued_at,omitzero"`
	Digest   string    `json:"digest,omitempty"`
	Owed     bool      `json:"owed"`
	Reason   string    `json:"reason,omitempty"` // why it is owed
}

func viewTokens(tokens []channel.Token) []tokenView {
	views := []tokenView{}
	for _, t := range tokens {
		views = append(views, tokenView{t.Version, t.Digest(), len(t.Data), t.MadeAt, t.Dead})
	}
	return views
}

func viewLog(entries []ledger.LogEntry) []logView {
	views := []logView{}
	for _, e := range entries {
		views = append(views, logView{e.At, string(e.Outcome), e.Attempt, e.Detail})
	}
	return views
}

func viewLate(late []ledger.LateEvidence) []lateView {
	views := []lateView{}
	for _, l := range late {
		views = append(views, lateView{l.At, string(l.Outcome), l.Attempt, l.Fence.String(), l.Evidence, l.Reason})
	}
	return views
}

func viewReceipts(receipts []ledger.StoredReceipt) []receiptView {
	views := []receiptView{}
	for _, r := range receipts {
		views = append(views, receiptView{r.ID, string(r.Outcome), r.IssuedAt, r.Digest, r.Owed, r.Reason})
	}
	return views
}
