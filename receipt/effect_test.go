package receipt_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlworks/pawl/receipt"
)

func TestEffectThatNoReceiptCanCarryIsRefusedByField(t *testing.T) {
	issuer := newIssuer(t)
	for _, c := range []struct {
		name, field string
		change      func(*receipt.Effect)
	}{
		{"abandoned, not as what", "AbandonedAs", func(e *receipt.Effect) { e.Outcome = receipt.Abandoned }},
		{"abandoned as nonsense", "AbandonedAs", func(e *receipt.Effect) { e.Outcome, e.AbandonedAs = receipt.Abandoned, "lost" }},
		{"attempt below zero", "Attempt", func(e *receipt.Effect) { e.Attempt = -1 }},
		{"committed and abandoned as", "AbandonedAs", func(e *receipt.Effect) { e.AbandonedAs = receipt.Refused }},
		{"digest bare", "PayloadDigest", func(e *receipt.Effect) { e.PayloadDigest = strings.Repeat("0", 64) }},
		{"digest of another algorithm", "PayloadDigest", func(e *receipt.Effect) { e.PayloadDigest = "sha512:" + strings.Repeat("0", 64) }},
		{"established by nonsense", "Established", func(e *receipt.Effect) { e.Established = "hearsay" }},
		{"established not said", "Established", func(e *receipt.Effect) { e.Established = "" }},
		{"fence number beyond a double", "FenceNumber", func(e *receipt.Effect) { e.FenceNumber = 1 << 53 }},
		{"key empty", "EffectKey", func(e *receipt.Effect) { e.EffectKey = "" }},
		{"key endless", "EffectKey", func(e *receipt.Effect) { e.EffectKey = strings.Repeat("k", 5000) }},
		{"key not UTF-8", "EffectKey", func(e *receipt.Effect) { e.EffectKey = "mail:\xff" }},
		{"ledger without id", "LedgerID", func(e *receipt.Effect) { e.LedgerID = "" }},
		{"no claim time", "CreatedAt", func(e *receipt.Effect) { e.CreatedAt = time.Time{} }},
		{"no outcome", "Outcome", func(e *receipt.Effect) { e.Outcome = "" }},
		{"no outcome time", "At", func(e *receipt.Effect) { e.At = time.Time{} }},
		{"person without name", "By", func(e *receipt.Effect) { e.Established = receipt.ByPerson }},
		{"year 10000", "SentAt", func(e *receipt.Effect) { e.SentAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := sentMail(t)
			c.change(&e)
			_, err := issuer.Issue(e)
			wantIssueError(t, err, c.field)
		})
	}
}

func TestEvidenceOfAnyShapeIsCarriedUnchanged(t *testing.T) {
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for _, c := range []struct {
		name, raw string
		why       string // empty: carried as JSON
		encoding  string
	}{
		{"astral text", `{"text":"🦊 é \u2028"}`, "", ""},
		{"duplicate names", `{"a":1,"a":2}`, "duplicate member names", "utf-8"},
		{"empty object", `{}`, "", ""},
		{"escaped NUL", `{"text":"a\u0000b"}`, "", ""},
		{"escaped surrogate pair", `"\ud83e\udd8a"`, "", ""},
		{"exponent beyond counting", `1e99999999999999999999`, "not portable JSON", "utf-8"},
		{"integer beyond 2^53", `{"id":9007199254740993}`, "a number that a double cannot hold", "utf-8"},
		{"integer at 2^53", `{"id":9007199254740992}`, "", ""},
		{"invalid UTF-8", "{\"text\":\"\xff\xfe\"}", "not portable JSON", "base64"},
		{"lone surrogate", `{"text":"\ud800"}`, "a lone surrogate", "utf-8"},
		{"lone surrogate in a name", `{"\udfff":1}`, "a lone surrogate", "utf-8"},
		{"nested beyond reason", deep, "not portable JSON", "utf-8"},
		{"nested deep", strings.Repeat("[", 100) + strings.Repeat("]", 100), "nested too deep", "utf-8"},
		{"not JSON", `250 OK`, "not portable JSON", "utf-8"},
		{"null", `null`, "", ""},
		{"number overflows", `1e999`, "not portable JSON", "utf-8"},
		{"number too exact", `0.10000000000000000001`, "a number that a double cannot hold", "utf-8"},
		{"number underflows", `1e-400`, "a number that a double cannot hold", "utf-8"},
		{"number written otherwise", `{"n":1.50e3,"m":-0.0,"k":100e-2}`, "", ""},
		{"raw NUL", "{\"text\":\"a\x00b\"}", "not portable JSON", "base64"},
		{"surrogate spelt in text", `{"text":"\\ud800"}`, "", ""},
		{"too large", `"` + strings.Repeat("x", 70_000) + `"`, "too large", "sha256"},
		{"trailing data", `{} {}`, "not portable JSON", "utf-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := sentMail(t)
			e.ExternalRef = json.RawMessage(c.raw)
			e.Approval = json.RawMessage(c.raw)
			r := issue(t, newIssuer(t), e)
			if v := receipt.Verify(r.Envelope, receipt.VerifyOptions{Keys: ringOf(t, fixedKey(t, 1))}); !v.OK {
				t.Fatalf("own receipt: %s", v)
			}
			p := payloadOf(t, r)
			for _, name := range []string{"externalRef", "approval"} {
				raw, _ := p[name+"Raw"].(map[string]any)
				if c.why == "" {
					wantSameJSON(t, p[name], c.raw)
					if raw != nil {
						t.Errorf("%sRaw is there: %v", name, raw)
					}
					continue
				}
				if p[name] != nil || raw["why"] != c.why || raw["encoding"] != c.encoding {
					t.Fatalf("%s is %v, raw %.200v, want why %q as %s", name, p[name], raw, c.why, c.encoding)
				}
				if got := restored(t, raw); c.encoding != "sha256" && got != c.raw {
					t.Errorf("%s came back as %.100q, want %.100q", name, got, c.raw)
				}
			}
		})
	}
}

func restored(t *testing.T, raw map[string]any) string {
	t.Helper()
	data := raw["data"].(string)
	if raw["encoding"] != "base64" {
		return data
	}
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func wantSameJSON(t *testing.T, got any, raw string) {
	t.Helper()
	var want any
	if err := json.Unmarshal([]byte(raw), &want); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != strings.ReplaceAll(string(b), "-0", "0") {
		t.Errorf("carried %s, want %s", a, b)
	}
}

func TestReasonOfAnyBytesNeverStopsAReceipt(t *testing.T) {
	t.Parallel()
	issuer, keys := newIssuer(t), ringOf(t, fixedKey(t, 1))
	rapid.Check(t, func(rt *rapid.T) {
		e := sentMail(t)
		e.Outcome, e.Established = receipt.Held, ""
		e.Reason = string(rapid.SliceOfN(rapid.Byte(), 0, 9000).Draw(rt, "reason"))
		r, err := issuer.Issue(e)
		if err != nil {
			rt.Fatal(err)
		}
		if v := receipt.Verify(r.Envelope, receipt.VerifyOptions{Keys: keys}); !v.OK {
			rt.Fatal(v)
		}
	})
}

func TestEvidenceOfAnyBytesNeverStopsAReceipt(t *testing.T) {
	t.Parallel()
	issuer, keys := newIssuer(t), ringOf(t, fixedKey(t, 1))
	soup := rapid.OneOf(
		rapid.SliceOf(rapid.Byte()),
		rapid.Map(rapid.SliceOf(rapid.SampledFrom([]string{
			`{`, `}`, `[`, `]`, `:`, `,`, `"a"`, `"`, `\ud800`, `\udc00`, `\u0000`, `1e999`, `-0`, `1e20`, `9007199254740993`,
			`null`, `true`, "\x00", "\xff", " ", "🦊", `\`, `"\ud800":1`,
		})), func(parts []string) []byte { return []byte(strings.Join(parts, "")) }),
	)
	rapid.Check(t, func(rt *rapid.T) {
		e := sentMail(t)
		e.ExternalRef = soup.Draw(rt, "evidence")
		e.Approval = soup.Draw(rt, "approval")
		r, err := issuer.Issue(e)
		if err != nil {
			rt.Fatal(err)
		}
		if v := receipt.Verify(r.Envelope, receipt.VerifyOptions{Keys: keys}); !v.OK {
			rt.Fatal(v)
		}
	})
}

func TestIdentifiersOfAnyTextAreIssuedAsTheyAre(t *testing.T) {
	t.Parallel()
	keys := ringOf(t, fixedKey(t, 1))
	text := rapid.StringN(1, 40, -1)
	rapid.Check(t, func(rt *rapid.T) {
		name := text.Draw(rt, "issuer")
		issuer := newIssuer(t, func(o *receipt.Options) { o.Name, o.Source = name, text.Draw(rt, "source") })
		e := sentMail(t)
		e.EffectKey, e.RunID, e.Channel = text.Draw(rt, "key"), text.Draw(rt, "run"), text.Draw(rt, "channel")
		e.Kind, e.LedgerID, e.TokenDigest = text.Draw(rt, "kind"), text.Draw(rt, "ledger"), text.Draw(rt, "token")
		r, err := issuer.Issue(e)
		if err != nil {
			rt.Fatal(err)
		}
		v := receipt.Verify(r.Envelope, receipt.VerifyOptions{Keys: keys, Issuer: name})
		if !v.OK || v.Claims.Subject != e.EffectKey {
			rt.Fatalf("%s, subject %q, want %q", v, v.Claims.Subject, e.EffectKey)
		}
		p := payloadOf(t, r)
		if p["runId"] != e.RunID || p["channel"] != e.Channel || p["kind"] != e.Kind || p["ledgerId"] != e.LedgerID {
			rt.Fatalf("facts changed: %v", p)
		}
	})
}

func TestLargestEvidenceStillFitsAReceipt(t *testing.T) {
	for _, unit := range []string{`1e20,`, `"\u0001",`, `"\"",`, `"é",`} {
		e := sentMail(t)
		body := strings.Repeat(unit, (64<<10-2)/len(unit))
		e.ExternalRef = json.RawMessage("[" + strings.TrimSuffix(body, ",") + "]")
		e.Approval = e.ExternalRef
		e.Reason = strings.Repeat("\x01", 9000)
		issue(t, newIssuer(t), e)
		e.ExternalRef = json.RawMessage("[" + body) // not JSON: carried as text
		e.Approval = e.ExternalRef
		issue(t, newIssuer(t), e)
	}
}
