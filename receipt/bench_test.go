package receipt_test

import (
	"testing"

	"github.com/pawlworks/pawl/receipt"
)

func BenchmarkIssue(b *testing.B) {
	issuer, e := newIssuer(b), sentMail(b)
	for b.Loop() {
		if _, err := issuer.Issue(e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	envelope := issue(b, newIssuer(b), sentMail(b)).Envelope
	opts := receipt.VerifyOptions{Keys: ringOf(b, fixedKey(b, 1))}
	for b.Loop() {
		if v := receipt.Verify(envelope, opts); !v.OK {
			b.Fatal(v)
		}
	}
}
