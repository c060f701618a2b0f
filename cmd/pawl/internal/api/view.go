package api

import (
	"encoding/json"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// ViewIntent is an intent as the API shows it. What it was redriven from and as is left out: [Service.Intent] looks that up.
func ViewIntent(i ledger.Intent) pawlclient.Intent {
	return pawlclient.Intent{
		Key: pawlclient.Key{RunID: i.RunID, EffectKey: i.EffectKey}, Channel: i.Channel, Kind: i.Kind, State: string(i.State), Outcome: i.Outcome(),
		PayloadDigest: i.PayloadDigest, Lane: i.Lane, FenceNumber: i.FenceNumber, FenceOwner: i.FenceOwner, LedgerEpoch: i.LedgerEpoch,
		Starts: i.Starts, Attempts: i.Attempts, Probes: i.Probes,
		MayHaveTakenEffect: i.InDoubt() && i.State != ledger.StateCommitted, DoubtfulAttempts: i.Doubts,
		CreatedAt: i.CreatedAt, DueAt: i.DueAt, ExpiresAt: i.ExpiresAt, FirstSentAt: i.FirstSentAt, LastPossibleSend: i.LastPossibleSend,
		AcceptedAt: i.AcceptedAt, HeldAt: i.HeldAt, NextLookAt: i.ProbeAt, EndedAt: i.CommittedAt, PrunedAt: i.PrunedAt,
		HoldReason: i.HoldReason, AbandonedAs: string(i.AbandonedAs), AbandonReason: i.AbandonReason, CancelReason: i.CancelReason,
		LastError: i.LastError, Established: string(i.Established), By: i.By, Evidence: rawJSON(i.Evidence), LateEvidence: rawJSON(i.LateEvidence),
		Approval: (*pawlclient.Approval)(i.Approval), TraceParent: i.TraceParent,
	}
}

func viewTokens(tokens []channel.Token) []pawlclient.Token {
	views := []pawlclient.Token{}
	for _, t := range tokens {
		views = append(views, pawlclient.Token{Version: t.Version, Digest: t.Digest(), Bytes: len(t.Data), MadeAt: t.MadeAt, Dead: t.Dead})
	}
	return views
}

func viewLog(entries []ledger.LogEntry) []pawlclient.LogEntry {
	views := []pawlclient.LogEntry{}
	for _, e := range entries {
		views = append(views, pawlclient.LogEntry{At: e.At, Outcome: string(e.Outcome), Attempt: e.Attempt, Detail: rawJSON(e.Detail)})
	}
	return views
}

func viewLate(late []ledger.LateEvidence) []pawlclient.LateEvidence {
	views := []pawlclient.LateEvidence{}
	for _, l := range late {
		views = append(views, pawlclient.LateEvidence{
			At: l.At, Outcome: string(l.Outcome), Attempt: l.Attempt, Fence: l.Fence.String(), Evidence: rawJSON(l.Evidence), Reason: l.Reason,
		})
	}
	return views
}

func viewReceipt(r ledger.StoredReceipt) pawlclient.Receipt {
	return pawlclient.Receipt{
		Key: pawlclient.Key{RunID: r.Key.RunID, EffectKey: r.Key.EffectKey}, ID: r.ID, Outcome: string(r.Outcome), IssuedAt: r.IssuedAt,
		Digest: r.Digest, Owed: r.Owed, Reason: r.Reason, Envelope: rawJSON(r.Envelope),
	}
}

func viewReceipts(stored []ledger.StoredReceipt) []pawlclient.Receipt {
	views := []pawlclient.Receipt{}
	for _, r := range stored {
		views = append(views, viewReceipt(r))
	}
	return views
}

func viewVerdict(v receipt.Verdict) (pawlclient.Verdict, error) {
	view := pawlclient.Verdict{OK: v.OK, Failed: string(v.Failed), Checks: []pawlclient.Check{}}
	for _, c := range v.Checks {
		detail := c.Detail
		if c.Status == receipt.NotChecked {
			detail = "not checked: " + detail
		}
		view.Checks = append(view.Checks, pawlclient.Check{Name: string(c.Name), OK: c.Status == receipt.Passed, Detail: detail})
	}
	claims, err := json.Marshal(v.Claims)
	view.Claims = claims
	return view, err
}
