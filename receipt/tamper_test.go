package receipt_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/receipt"
)

// mutants returns copies of an envelope that differ from it a little: each byte
// replaced by several values, and every third one removed, pushed aside by a
// space, and swapped with its neighbour.
func mutants(envelope []byte) [][]byte {
	var out [][]byte
	add := func(m []byte) {
		if !bytes.Equal(m, envelope) {
			out = append(out, m)
		}
	}
	for i, b := range envelope {
		for _, to := range []byte{b ^ 1, b ^ 0x20, b ^ 0x80, '"'} {
			if to != b {
				m := bytes.Clone(envelope)
				m[i] = to
				add(m)
			}
		}
		if i%3 > 0 {
			continue // what moves the rest is the same three bytes on
		}
		add(append(bytes.Clone(envelope[:i]), envelope[i+1:]...))
		add(append(append(bytes.Clone(envelope[:i]), ' '), envelope[i:]...))
		if i > 0 {
			m := bytes.Clone(envelope)
			m[i-1], m[i] = m[i], m[i-1]
			add(m)
		}
	}
	for _, tail := range []string{" ", "\n", "\x00", "}", "\r"} {
		add(append(bytes.Clone(envelope), tail...))
	}
	return out
}

func TestEveryChangedByteOfAnEnvelopeIsRejected(t *testing.T) {
	t.Parallel()
	envelope := issue(t, newIssuer(t), sentMail(t)).Envelope
	opts := receipt.VerifyOptions{Keys: ringOf(t, fixedKey(t, 1)), AllowUnsigned: true}
	if v := receipt.Verify(envelope, opts); !v.OK {
		t.Fatal(v)
	}
	tried := mutants(envelope)
	if len(tried) < 4*len(envelope) {
		t.Fatalf("only %d mutants of %d bytes", len(tried), len(envelope))
	}
	for _, m := range tried {
		v := receipt.Verify(m, opts)
		if v.OK || v.Failed == "" {
			t.Fatalf("accepted a changed envelope: %q", m)
		}
	}
}

func TestEverySignatureBitCounts(t *testing.T) {
	envelope := issue(t, newIssuer(t), sentMail(t)).Envelope
	opts := receipt.VerifyOptions{Keys: ringOf(t, fixedKey(t, 1))}
	e := decode(t, envelope)
	one := e["signatures"].([]any)[0].(map[string]any)
	sig, err := base64.StdEncoding.DecodeString(one["sig"].(string))
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(sig) * 8 {
		changed := bytes.Clone(sig)
		changed[bit/8] ^= 1 << (bit % 8)
		one["sig"] = base64.StdEncoding.EncodeToString(changed)
		line, err := canonical.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if v := receipt.Verify(line, opts); v.OK || v.Failed != receipt.CheckSignature {
			t.Fatalf("bit %d: %s", bit, v)
		}
	}
}

// forge signs any body under any payload type with a trusted key, to show what
// is refused for reasons other than the signature.
func forge(t testing.TB, fill byte, payloadType, body string) map[string]any {
	t.Helper()
	seed := bytes.Repeat([]byte{fill}, ed25519.SeedSize)
	pae := fmt.Sprintf("DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(body), body)
	sig := ed25519.Sign(ed25519.NewKeyFromSeed(seed), []byte(pae))
	return map[string]any{
		"payload":     base64.StdEncoding.EncodeToString([]byte(body)),
		"payloadType": payloadType,
		"signatures": []any{map[string]any{
			"keyid": fixedKey(t, fill).ID(), "sig": base64.StdEncoding.EncodeToString(sig),
		}},
	}
}

func canonicalLine(t testing.TB, v any) []byte {
	t.Helper()
	line, err := canonical.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func TestProperlySignedEnvelopeOfTheWrongFormIsRejected(t *testing.T) {
	const rightType = "application/vnd.dreamnet.receipt.v1+json"
	plain := string(openUnchecked(t, issue(t, newIssuer(t), sentMail(t)).Envelope))
	opts := receipt.VerifyOptions{Keys: ringOf(t, fixedKey(t, 1), fixedKey(t, 2))}
	right := forge(t, 1, rightType, plain)
	if v := receipt.Verify(canonicalLine(t, right), opts); !v.OK {
		t.Fatalf("the forge itself: %s", v)
	}
	pretty, err := json.MarshalIndent(right, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	second := forge(t, 2, rightType, plain)["signatures"].([]any)[0]
	with := func(e edit) []byte {
		env := forge(t, 1, rightType, plain)
		e(env)
		return canonicalLine(t, env)
	}
	for _, c := range []struct {
		name string
		doc  []byte
	}{
		{"body not canonical", canonicalLine(t, forge(t, 1, rightType, plain+"\n"))},
		{"body not JSON", canonicalLine(t, forge(t, 1, rightType, "hello"))},
		{"body with duplicate names", canonicalLine(t, forge(t, 1, rightType, strings.Replace(plain, `"issuer":`, `"issuer":"a","issuer":`, 1)))},
		{"envelope in an envelope", canonicalLine(t, forge(t, 1, rightType, string(canonicalLine(t, right))))},
		{"extra member", with(set("note", "x"))},
		{"laid out freely", pretty},
		{"line end inside the payload", with(set("payload", right["payload"].(string)[:76]+"\n"+right["payload"].(string)[76:]))},
		{"line end inside the signature", with(func(env map[string]any) {
			one := env["signatures"].([]any)[0].(map[string]any)
			one["sig"] = one["sig"].(string) + "\r\n"
		})},
		{"no signature", with(set("signatures", []any{}))},
		{"schema beside the payload", with(set("schemaVersion", receipt.SchemaReceipt))},
		{"type of another schema", canonicalLine(t, forge(t, 1, "application/vnd.dreamnet.proof-artifact.v1+json", plain))},
		{"type unknown", canonicalLine(t, forge(t, 1, "application/json", plain))},
		{"two signatures", with(set("signatures", []any{right["signatures"].([]any)[0], second}))},
		{"url alphabet", with(set("payload", base64.URLEncoding.EncodeToString([]byte(plain))+"_"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := receipt.Verify(c.doc, opts)
			if v.OK || v.Failed != receipt.CheckSchema {
				t.Error(v)
			}
		})
	}
	t.Run("key id empty", func(t *testing.T) {
		env := forge(t, 1, rightType, plain)
		env["signatures"].([]any)[0].(map[string]any)["keyid"] = ""
		if v := receipt.Verify(canonicalLine(t, env), opts); v.OK {
			t.Error(v)
		}
	})
	t.Run("key id of another trusted key", func(t *testing.T) {
		env := forge(t, 1, rightType, plain)
		env["signatures"].([]any)[0].(map[string]any)["keyid"] = fixedKey(t, 2).ID()
		if v := receipt.Verify(canonicalLine(t, env), opts); v.OK || v.Failed != receipt.CheckSignature {
			t.Error(v)
		}
	})
}

func TestAnyChangeOfAnEnvelopeIsRejected(t *testing.T) {
	t.Parallel()
	envelope := issue(t, newIssuer(t), sentMail(t)).Envelope
	opts := receipt.VerifyOptions{Keys: ringOf(t, fixedKey(t, 1)), AllowUnsigned: true}
	rapid.Check(t, func(rt *rapid.T) {
		m := bytes.Clone(envelope)
		for range rapid.IntRange(1, 4).Draw(rt, "edits") {
			from := rapid.IntRange(0, len(m)).Draw(rt, "from")
			to := min(len(m), from+rapid.IntRange(0, 6).Draw(rt, "length"))
			put := rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(rt, "put")
			m = append(append(bytes.Clone(m[:from]), put...), m[to:]...)
		}
		if v := receipt.Verify(m, opts); v.OK != bytes.Equal(m, envelope) {
			rt.Fatalf("%s: %q", v, m)
		}
	})
}

// Run it with -fuzzminimizetime=10x: shrinking documents of this size by default
// takes longer than finding them.
func FuzzVerifyNeverPanicsAndAcceptsOnlyWhatWasIssued(f *testing.F) {
	issuer := newIssuer(f)
	envelope := issue(f, issuer, sentMail(f)).Envelope
	for _, seed := range [][]byte{envelope, openUnchecked(f, envelope), {}, []byte("{}"), []byte(`{"schemaVersion":"receipt.v1"}`), []byte(`{"payload":"","payloadType":"","signatures":[{}]}`)} {
		f.Add(seed)
	}
	keys := ringOf(f, fixedKey(f, 1))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if v := receipt.Verify(doc, receipt.VerifyOptions{Keys: keys}); v.OK != bytes.Equal(doc, envelope) {
			t.Errorf("signed: %s", v)
		}
		v := receipt.Verify(doc, receipt.VerifyOptions{})
		if v.OK != (v.Failed == "") || v.OK && v.Result(receipt.CheckSchema).Status != receipt.Passed {
			t.Errorf("contradicts itself: %+v", v)
		}
		if !v.OK {
			return
		}
		// What passes plainly stays the same document when it is written again.
		canon, err := canonical.Transform(doc)
		if err != nil {
			t.Fatal(err)
		}
		if again := receipt.Verify(canon, receipt.VerifyOptions{}); !again.OK {
			t.Errorf("its canonical form fails: %s", again)
		}
	})
}
