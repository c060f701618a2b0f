package command

import (
	"fmt"
	"io"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// printOutcome says in a few lines what became of an intent.
func printOutcome(w io.Writer, i pawlclient.Intent) {
	row(w, "outcome", i.Outcome)
	row(w, "run", i.RunID)
	row(w, "key", i.EffectKey)
	row(w, "channel", i.Channel)
	optional(w, "evidence", evidenceText(i))
	if i.State == pawlclient.StateCommitted { // what went wrong before is history: pawl explain tells it
		optional(w, "decided by", i.By)
	} else {
		optional(w, "reason", firstText(i.HoldReason, i.AbandonReason, i.LastError))
	}
	if !terminal(i) {
		row(w, "fence number", fmt.Sprint(i.FenceNumber))
	}
}

func terminal(i pawlclient.Intent) bool {
	return i.State == pawlclient.StateCommitted || i.State == pawlclient.StateAbandoned
}

func optional(w io.Writer, name, value string) {
	if value != "" {
		row(w, name, value)
	}
}

func firstText(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

func evidenceText(i pawlclient.Intent) string {
	if id := ledger.EvidenceID(i.Evidence); id != "" {
		return id
	}
	if len(i.Evidence) > 0 && string(i.Evidence) != "{}" {
		return string(i.Evidence)
	}
	return ""
}

func printDetail(w io.Writer, d pawlclient.Detail) {
	i := d.Intent
	row(w, "outcome", i.Outcome)
	row(w, "state", i.State)
	row(w, "run", i.RunID)
	row(w, "key", i.EffectKey)
	row(w, "channel", i.Channel)
	row(w, "payload digest", i.PayloadDigest)
	optional(w, "lane", i.Lane)
	row(w, "fence number", fmt.Sprint(i.FenceNumber))
	optional(w, "fence owner", i.FenceOwner)
	row(w, "starts", fmt.Sprint(i.Starts))
	row(w, "attempts", fmt.Sprint(i.Attempts))
	row(w, "may have taken effect", fmt.Sprint(i.MayHaveTakenEffect))
	row(w, "claimed", stamp(i.CreatedAt))
	optional(w, "first sent", stamp(i.FirstSentAt))
	optional(w, "held", stamp(i.HeldAt))
	optional(w, "next look", stamp(i.NextLookAt))
	optional(w, "ended", stamp(i.EndedAt))
	optional(w, "hold reason", i.HoldReason)
	optional(w, "abandon reason", i.AbandonReason)
	optional(w, "cancelled", i.CancelReason)
	optional(w, "redrive of", i.RedriveOf)
	optional(w, "redriven as", i.RedrivenAs)
	optional(w, "pruned", stamp(i.PrunedAt))
	optional(w, "last error", i.LastError)
	optional(w, "established by", i.Established)
	optional(w, "decided by", i.By)
	optional(w, "evidence", string(i.Evidence))
	optional(w, "late evidence", string(i.LateEvidence))
	optional(w, "payload", string(d.Payload))
	for _, t := range d.Tokens {
		row(w, fmt.Sprintf("token %d", t.Version), t.Digest, fmt.Sprintf("%d bytes", t.Bytes))
	}
	for _, r := range d.Receipts {
		if r.Owed {
			row(w, "receipt", "owed: "+r.Reason)
			continue
		}
		row(w, "receipt", r.ID, r.Outcome)
	}
	fmt.Fprintln(w)
	row(w, "AT", "WHAT", "ATTEMPT", "DETAIL")
	for _, e := range d.Log {
		row(w, stamp(e.At), e.Outcome, fmt.Sprint(e.Attempt), string(e.Detail))
	}
	for _, l := range d.Late {
		row(w, stamp(l.At), "late evidence: "+l.Outcome, fmt.Sprint(l.Attempt), string(l.Evidence))
	}
}
