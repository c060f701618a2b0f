package receipt_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlworks/pawl/receipt"
)

// nodeVerifies runs the verifier of docs/examples, which shares no code with
// this package, and returns its last line and exit code.
func nodeVerifies(t *testing.T, lines [][]byte, keys ...receipt.Key) (last, all string, code int) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("node is needed to check receipts independently")
		}
		t.Skip("node is not installed")
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "receipts.jsonl")
	text := bytes.Join(lines, []byte("\n"))
	if len(lines) > 0 {
		text = append(text, '\n')
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{filepath.Join("..", "docs", "examples", "verify-receipt", "verify.mjs")}
	for i, key := range keys {
		pub := filepath.Join(folder, fmt.Sprintf("%d.pub.pem", i))
		if err := receipt.WritePublicKey(pub, key.Public()); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--key", pub)
	}
	cmd := exec.Command(node, append(args, file)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if problems.Len() > 0 {
		t.Fatalf("node: %s", problems.String())
	}
	all = strings.TrimSpace(out.String())
	return all[strings.LastIndexByte(all, '\n')+1:], all, cmd.ProcessState.ExitCode()
}

func TestIndependentVerifierAcceptsIssuedReceipts(t *testing.T) {
	t.Parallel()
	first, second := newIssuer(t), newIssuer(t, func(o *receipt.Options) { o.Key = fixedKey(t, 2) })
	var lines [][]byte
	for i, evidence := range []string{
		``, `null`, `{}`, `{"id":9007199254740993}`, `{"text":"\ud800"}`, "\xff", `1e999`, `{"n":[1e21,1e-7,-0.0,0.1,5e-324,123456789012345680000]}`,
		`{"😀":1,"\uf900":2,"10":3,"2":4,"B":5,"_":6,"":7}`, `{"text":"\u0000\u001f\u007f<>&\/\u2028é"}`, `{"a":1,"a":2}`,
	} {
		for _, outcome := range []receipt.Outcome{receipt.Committed, receipt.Held, receipt.Abandoned, receipt.Late} {
			e := sentMail(t)
			e.ExternalRef, e.Outcome = json.RawMessage(evidence), outcome
			e.EffectKey = "event:😀\u2028:" + fmt.Sprint(i)
			if outcome == receipt.Abandoned {
				e.AbandonedAs = receipt.NeverSent
			}
			lines = append(lines, issue(t, first, e).Envelope, issue(t, second, e).Envelope)
		}
	}
	last, all, code := nodeVerifies(t, lines, fixedKey(t, 1), fixedKey(t, 2))
	if want := fmt.Sprintf("%d verified, 0 refused", len(lines)); last != want || code != 0 {
		t.Fatalf("exit %d: %s", code, all)
	}
	last, _, code = nodeVerifies(t, lines, fixedKey(t, 2))
	if want := fmt.Sprintf("%d verified, %d refused", len(lines)/2, len(lines)/2); last != want || code != 1 {
		t.Errorf("with one of two keys: exit %d: %s", code, last)
	}
}

func TestIndependentVerifierRejectsEveryChangedByte(t *testing.T) {
	t.Parallel()
	envelope := issue(t, newIssuer(t), sentMail(t)).Envelope
	var lines [][]byte
	for _, m := range mutants(envelope) {
		if bytes.IndexByte(m, '\n') < 0 {
			lines = append(lines, m)
		}
	}
	// A third suffices for node: every byte is still changed at least once.
	kept := lines[:0]
	for i, m := range lines {
		if i%3 == 0 {
			kept = append(kept, m)
		}
	}
	last, all, code := nodeVerifies(t, append(kept, envelope), fixedKey(t, 1))
	if want := fmt.Sprintf("1 verified, %d refused", len(kept)); last != want || code != 1 {
		t.Fatalf("exit %d: %s\n%.2000s", code, last, all)
	}
}

func TestIndependentVerifierRejectsWhatDoesNotRecompute(t *testing.T) {
	const payloadType = "application/vnd.dreamnet.receipt.v1+json"
	plain := openUnchecked(t, issue(t, newIssuer(t), sentMail(t)).Envelope)
	var lines [][]byte
	for _, e := range []edit{
		set("spore.payload.externalRef", "another"), set("issuer", "organism:attacker:evil"), set("verificationStatus", "verified"),
		set("note", "x"), drop("provenance"), set("schemaVersion", "dreamnet.receipt.v2"), drop("spore.source"), set("digest", 7),
	} {
		lines = append(lines, canonicalLine(t, forge(t, 1, payloadType, string(edited(t, plain, e)))))
	}
	lines = append(lines, canonicalLine(t, forge(t, 1, "application/json", string(plain))), []byte(""), bytes.Repeat([]byte("x"), 3<<20))
	last, all, code := nodeVerifies(t, lines, fixedKey(t, 1))
	if want := fmt.Sprintf("0 verified, %d refused", len(lines)); last != want || code != 1 {
		t.Fatalf("exit %d: %s", code, all)
	}
	if _, _, code = nodeVerifies(t, nil, fixedKey(t, 1)); code != 1 {
		t.Error("a file without receipts counts as verified")
	}
}
