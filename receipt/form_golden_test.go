package receipt_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlworks/pawl/receipt"
)

// TestConvertedFormsAreAsOtherProgramsHoldThem converts the golden receipts and compares byte by byte.
func TestConvertedFormsAreAsOtherProgramsHoldThem(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("testdata", "golden.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := receipt.LoadKeyRing(filepath.Join("testdata", "golden.pub.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for schema, convert := range map[string]func([]byte, receipt.VerifyOptions) ([]byte, error){
		receipt.SchemaInterchange: receipt.ToInterchange, receipt.SchemaProofArtifact: receipt.ToProofArtifact,
	} {
		t.Run(schema, func(t *testing.T) {
			var got bytes.Buffer
			var sealed [][]byte
			for line := range bytes.Lines(source) {
				doc, err := convert(bytes.TrimSpace(line), receipt.VerifyOptions{Keys: ring})
				if err != nil {
					t.Fatal(err)
				}
				_, _ = got.Write(append(doc, '\n'))
				envelope, err := newIssuer(t).Seal(doc)
				if err != nil {
					t.Fatal(err)
				}
				sealed = append(sealed, envelope)
			}
			golden := filepath.Join("testdata", schema+".jsonl")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("converted receipts differ from %s: other programs hold receipts in that form\n got %s\nwant %s", golden, got.Bytes(), want)
			}
			last, all, code := nodeVerifies(t, sealed, fixedKey(t, 1))
			if last != fmt.Sprintf("%d verified, 0 refused", len(sealed)) || code != 0 {
				t.Errorf("the independent verifier: exit %d: %s", code, all)
			}
		})
	}
}

// TestIndependentVerifierRejectsConvertedFormsThatDoNotRecompute forges them with a trusted key.
func TestIndependentVerifierRejectsConvertedFormsThatDoNotRecompute(t *testing.T) {
	interchange, artifact := convertAll(t, issue(t, newIssuer(t), sentMail(t)).Envelope)
	var lines [][]byte
	for _, c := range []struct {
		schema string
		doc    []byte
		edits  []edit
	}{
		{receipt.SchemaInterchange, interchange, []edit{
			set("issuerId", "organism:attacker:evil"), set("subjectHash", "00"), set("digest", "x"), set("note", "x"), drop("timestamp"), set("schemaVersion", "receipt.v2"),
		}},
		{receipt.SchemaProofArtifact, artifact, []edit{
			set("evidenceData.kind", "forged"), set("evidenceData", []any{}), set("contentHash", "x"), set("note", "x"), drop("creatorId"), set("signature", 1),
		}},
	} {
		payloadType, _ := receipt.PayloadType(c.schema)
		for _, e := range c.edits {
			lines = append(lines, canonicalLine(t, forge(t, 1, payloadType, string(edited(t, c.doc, e)))))
		}
		// The right document under another form's payload type.
		other, _ := receipt.PayloadType(receipt.SchemaReceipt)
		lines = append(lines, canonicalLine(t, forge(t, 1, other, string(c.doc))))
	}
	last, all, code := nodeVerifies(t, lines, fixedKey(t, 1))
	if want := fmt.Sprintf("0 verified, %d refused", len(lines)); last != want || code != 1 {
		t.Fatalf("exit %d: %s", code, all)
	}
	for i, line := range lines {
		if v := receipt.Verify(line, receipt.VerifyOptions{Keys: ringOf(t, fixedKey(t, 1))}); v.OK {
			t.Errorf("line %d: the two verifiers disagree", i+1)
		}
	}
}
