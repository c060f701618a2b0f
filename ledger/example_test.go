package ledger_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// An approval binds a channel, a key and a payload: whoever approves computes the same digest over what they saw.
func ExampleApprovalDigest() {
	claim := ledger.Claim{
		RunID: "01890a5d-ac96-774b-bcce-b302099a8057", EffectKey: "mail:welcome", Channel: "mail/marketing",
		Payload: []byte(`{"to": "ann@example.org"}`),
	}
	prepared, err := ledger.Prepare(claim)
	if err != nil {
		fmt.Println(err)
		return
	}
	digest, err := ledger.ApprovalDigest(claim.Channel, claim.EffectKey, prepared.PayloadDigest)
	if err != nil {
		fmt.Println(err)
		return
	}
	approval := ledger.Approval{By: "Bob", Reference: "TICKET-7", Digest: digest}
	fmt.Printf("as approved: %q\n", approval.Check(claim.Channel, claim.EffectKey, prepared.PayloadDigest, time.Now()))
	fmt.Printf("another key: %q\n", approval.Check(claim.Channel, "mail:goodbye", prepared.PayloadDigest, time.Now()))
	// Output:
	// as approved: ""
	// another key: "the approval is for something else: its digest is not that of this channel, key and payload"
}

// A claim that cannot be right is refused before anything is written, and the error names the field.
func ExamplePrepare() {
	_, err := ledger.Prepare(ledger.Claim{
		RunID: "01890a5d-ac96-774b-bcce-b302099a8057", EffectKey: "telegram:42", Channel: "mail/marketing", Payload: []byte(`{}`),
	})
	var invalid *ledger.InvalidError
	if errors.As(err, &invalid) {
		fmt.Println(invalid.Field)
	}
	fmt.Println(err)
	// Output:
	// effect_key
	// effect_key: begins with "telegram" but the channel mail/marketing is of kind "mail"
}

// Evidence is stored whatever the outside system said.
func ExampleEncodeEvidence() {
	fmt.Println(string(ledger.EncodeEvidence(channel.Evidence{ID: "<1@mx>", Detail: json.RawMessage(`{"code": 250}`)})))
	odd := ledger.EncodeEvidence(channel.Evidence{ID: "4F2A", Detail: []byte("\x00\xff")})
	fmt.Println(ledger.EvidenceID(odd), len(ledger.DecodeEvidence(odd).Detail))
	// Output:
	// {"detail":{"code":250},"id":"<1@mx>"}
	// 4F2A 2
}
