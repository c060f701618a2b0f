package receipt

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// payload lays out the facts under the content hash, in canonical form. Every
// member is always there, null where nothing is known, so that an absence is a
// statement; only externalRefRaw and approvalRaw appear when they are needed.
func (e Effect) payload() []byte {
	var limits [][]byte
	for _, line := range e.doesNotProve() {
		limits = append(limits, quote(line))
	}
	members := []member{
		{"schemaVersion", quote(SchemaEffect)},
		{"outcome", quote(string(e.Outcome))},
		{"runId", quote(e.RunID)},
		{"effectKey", quote(e.EffectKey)},
		{"channel", quote(e.Channel)},
		{"kind", quote(e.Kind)},
		{"payloadDigest", quote(e.PayloadDigest)},
		{"tokenDigest", orNull(e.TokenDigest)},
		{"established", orNull(string(e.Established))},
		{"by", orNull(e.By)},
		{"reason", orNull(readable(e.Reason))},
		{"abandonedAs", orNull(string(e.AbandonedAs))},
		{"attempt", integer(int64(e.Attempt))},
		{"starts", integer(int64(e.Starts))},
		{"fenceNumber", integer(e.FenceNumber)},
		{"ledgerEpoch", integer(e.LedgerEpoch)},
		{"ledgerId", quote(e.LedgerID)},
		{"createdAt", instant(e.CreatedAt)},
		{"firstSentAt", instant(e.FirstSentAt)},
		{"sentAt", instant(e.SentAt)},
		{"at", instant(e.At)},
		{"doesNotProve", list(limits...)},
	}
	members = append(members, carried("externalRef", e.ExternalRef)...)
	members = append(members, carried("approval", e.Approval)...)
	return object(members...)
}

// carried writes foreign JSON, or null and its exact bytes beside it.
func carried(name string, raw json.RawMessage) []member {
	value, exact := carry(raw)
	switch {
	case exact != nil:
		return []member{{name, null()}, {name + "Raw", exact.write()}}
	case value == nil:
		return []member{{name, null()}}
	}
	return []member{{name, value}}
}

// doesNotProve lists what a reader must not conclude. The wording is under the
// digest: change it only together with SchemaEffect.
func (e Effect) doesNotProve() []string {
	not := []string{
		"that the outside system told the truth, or that its adapter understood it",
		"that anybody received, read or acted on the effect",
		"that the effect was not undone, bounced or deleted afterwards",
		"that the same effect was not made outside this ledger",
		"that the clocks behind the times were right",
		"that this is the only or the latest receipt of the intent",
	}
	switch {
	case e.Outcome == Held:
		not = append(not, "whether the effect happened: it may have; do not retry")
	case e.Outcome == Abandoned && e.AbandonedAs == Unknown:
		not = append(not, "that the effect did not happen: unknown; do not retry")
	case e.Outcome == Late:
		not = append(not, "that the intent's ending changed: it stays as it was, and the effect was found later")
	}
	if e.Established == ByPerson {
		not = append(not, "what happened, beyond the word of the person named in by")
	}
	return not
}

func orNull(s string) []byte {
	if s == "" {
		return null()
	}
	return quote(s)
}

// instant keeps the microseconds of the ledger's own clock.
func instant(t time.Time) []byte {
	if t.IsZero() {
		return null()
	}
	return quote(t.UTC().Format("2006-01-02T15:04:05.000000Z"))
}

// readable makes free text fit: a reason comments the outcome and must not be
// able to stop its receipt.
func readable(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxReason {
		return text
	}
	const mark = "…"
	cut := maxReason - len(mark)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + mark
}
