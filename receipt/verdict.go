package receipt

import (
	"strings"
	"time"
)

// Check names one thing that is checked of a receipt.
type Check string

// The checks, in the order in which a verdict lists them.
const (
	CheckSchema    Check = "schema"            // one known form, every field there, nothing else
	CheckContent   Check = "content_integrity" // the content hash recomputes
	CheckIdentity  Check = "identity"          // the digest binds issuer and subject; the issuer is the expected one
	CheckSignature Check = "signature"         // the envelope is signed by a trusted key
	CheckFreshness Check = "freshness"         // the receipt is not older than allowed
)

// Status is the result of one check.
type Status string

// The results. A check that was not done proves nothing.
const (
	Passed     Status = "passed"
	Failed     Status = "failed"
	NotChecked Status = "not_checked"
)

// CheckResult is one check and what came of it.
type CheckResult struct {
	Name   Check  `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
}

// Verdict is the result of [Verify]. The zero Verdict is not OK.
type Verdict struct {
	OK     bool          `json:"ok"`               // no check failed; look at Checks for those not done
	Failed Check         `json:"failed,omitempty"` // the first check that failed
	Schema string        `json:"schema,omitempty"`
	Claims Claims        `json:"claims"`
	Checks []CheckResult `json:"checks"` // all five, in order
}

// Claims is what the document says of itself. It is worth what the checks are
// worth: nothing if the verdict is not OK.
type Claims struct {
	ReceiptID string    `json:"receiptId,omitempty"` // or the artifact's id
	Issuer    string    `json:"issuer,omitempty"`    // or the artifact's creator
	Kind      string    `json:"kind,omitempty"`      // e.g. effect.committed; or the artifact's type
	Subject   string    `json:"subject,omitempty"`   // subject key; subject hash in a receipt.v1
	Digest    string    `json:"digest,omitempty"`    // or the artifact's content hash
	IssuedAt  time.Time `json:"issuedAt,omitzero"`
	KeyID     string    `json:"keyId,omitempty"` // empty without an envelope
}

func newVerdict() Verdict {
	v := Verdict{}
	for _, name := range []Check{CheckSchema, CheckContent, CheckIdentity, CheckSignature, CheckFreshness} {
		v.Checks = append(v.Checks, CheckResult{Name: name, Status: NotChecked, Detail: "not reached"})
	}
	return v
}

// Result returns the result of one check.
func (v Verdict) Result(name Check) CheckResult {
	for _, c := range v.Checks {
		if c.Name == name {
			return c
		}
	}
	return CheckResult{Name: name, Status: NotChecked, Detail: "no such check"}
}

// String is one line: the result, the failed check and what was not checked.
func (v Verdict) String() string {
	var b strings.Builder
	if v.OK {
		b.WriteString("ok")
	} else {
		b.WriteString("rejected: ")
		b.WriteString(string(v.Failed))
		b.WriteString(": ")
		b.WriteString(v.Result(v.Failed).Detail)
	}
	var skipped []string
	for _, c := range v.Checks {
		if c.Status == NotChecked {
			skipped = append(skipped, string(c.Name))
		}
	}
	if len(skipped) > 0 {
		b.WriteString(" (not checked: " + strings.Join(skipped, ", ") + ")")
	}
	return b.String()
}

func (v *Verdict) set(name Check, status Status, detail string) {
	for i := range v.Checks {
		if v.Checks[i].Name != name {
			continue
		}
		// A failure is never overwritten by a later, weaker look.
		if v.Checks[i].Status != Failed {
			v.Checks[i].Status, v.Checks[i].Detail = status, detail
		}
	}
}

// settle derives OK and Failed: all that was required passed, nothing failed.
func (v *Verdict) settle() {
	v.OK, v.Failed = v.Result(CheckSchema).Status == Passed, ""
	for _, c := range v.Checks {
		if c.Status == Failed {
			v.OK, v.Failed = false, c.Name
			return
		}
	}
	if !v.OK {
		v.Failed = CheckSchema
	}
}
