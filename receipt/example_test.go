package receipt_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/receipt"
)

func exampleEffect() receipt.Effect {
	digest, err := canonical.SumValue(map[string]string{"subject": "Hello", "body": "World"})
	if err != nil {
		panic(err)
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	return receipt.Effect{
		Outcome:       receipt.Committed,
		RunID:         "6f1d2c3b-1111-8222-8333-444455556666",
		EffectKey:     "mail:3f0a:9b1c",
		Channel:       "mail",
		Kind:          "mail",
		PayloadDigest: digest.Stamped(),
		ExternalRef:   json.RawMessage(`{"queueId":"4Xk2"}`),
		Established:   receipt.BySend,
		LedgerID:      "ledger-a",
		CreatedAt:     at,
		At:            at.Add(time.Second),
	}
}

// A receipt is made by whoever keeps the ledger and checked by anybody who has
// the file and the public key.
func Example() {
	key, err := receipt.GenerateKey() // a service keeps one: LoadOrCreateKey
	if err != nil {
		panic(err)
	}
	issuer, err := receipt.NewIssuer(receipt.Options{Name: "organism:example:main", Key: key})
	if err != nil {
		panic(err)
	}
	r, err := issuer.Issue(exampleEffect())
	if err != nil {
		panic(err) // a service records the receipt as owed
	}

	ring, err := receipt.NewKeyRing(key.Public())
	if err != nil {
		panic(err)
	}
	verdict := receipt.Verify(r.Envelope, receipt.VerifyOptions{Keys: ring, Issuer: "organism:example:main"})
	fmt.Println(verdict)
	fmt.Println(verdict.Claims.Kind, verdict.Claims.Subject)

	changed := bytes.Replace(r.Envelope, []byte(`"sig":"`), []byte(`"sig":"A`), 1)
	fmt.Println(receipt.Verify(changed, receipt.VerifyOptions{Keys: ring}).OK)
	// Output:
	// ok (not checked: freshness)
	// effect.committed mail:3f0a:9b1c
	// false
}

func ExampleVerifyAll() {
	key, err := receipt.GenerateKey()
	if err != nil {
		panic(err)
	}
	issuer, err := receipt.NewIssuer(receipt.Options{Name: "organism:example:main", Key: key})
	if err != nil {
		panic(err)
	}
	var file bytes.Buffer
	out := receipt.NewWriter(&file)
	for range 2 {
		r, err := issuer.Issue(exampleEffect())
		if err != nil {
			panic(err)
		}
		if err := out.Write(r.Envelope); err != nil {
			panic(err)
		}
	}
	file.WriteString("{\"schemaVersion\":\"dreamnet.receipt.v9\"}\n")

	ring, err := receipt.NewKeyRing(key.Public())
	if err != nil {
		panic(err)
	}
	tally, err := receipt.VerifyAll(&file, receipt.VerifyOptions{Keys: ring}, func(line int, v receipt.Verdict) error {
		if !v.OK {
			fmt.Println("line", line, v.Failed, v.Result(v.Failed).Detail)
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(tally.Verified, "verified,", tally.Rejected, "rejected")
	// Output:
	// line 3 schema schemaVersion: "dreamnet.receipt.v9" is not a schema this verifier knows
	// 2 verified, 1 rejected
}

func ExampleToInterchange() {
	key, err := receipt.GenerateKey()
	if err != nil {
		panic(err)
	}
	issuer, err := receipt.NewIssuer(receipt.Options{Name: "organism:example:main", Key: key})
	if err != nil {
		panic(err)
	}
	r, err := issuer.Issue(exampleEffect())
	if err != nil {
		panic(err)
	}
	ring, err := receipt.NewKeyRing(key.Public())
	if err != nil {
		panic(err)
	}
	small, err := receipt.ToInterchange(r.Envelope, receipt.VerifyOptions{Keys: ring})
	if err != nil {
		panic(err)
	}
	fmt.Println(receipt.Verify(small, receipt.VerifyOptions{}))
	// Output:
	// ok (not checked: content_integrity, signature, freshness)
}
