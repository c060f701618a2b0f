package ledger_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// stored is the form of stored evidence, as a reader without this package sees it.
type stored struct {
	ID     string          `json:"id"`
	Detail json.RawMessage `json:"detail"`
	Raw    string          `json:"raw"`
	Reason string          `json:"reason"`
	Size   int             `json:"size"`
	SHA256 string          `json:"sha256"`
	RawID  string          `json:"raw_id"`
}

func TestEvidenceIsKeptWhateverTheOutsideSystemSaid(t *testing.T) {
	long := strings.Repeat("x", 10<<20)
	for name, c := range map[string]struct {
		detail string
		reason string // a word of the reason; empty: stored as JSON
	}{
		"nothing":                  {"", ""},
		"an object":                {`{"b":1,"a":[true,null,"é"]}`, ""},
		"a string":                 {`"queued"`, ""},
		"an escaped backslash":     {`"c:\\u0041 \\ud800"`, ""},
		"a pair of surrogates":     {`"\ud83d\ude00"`, ""},
		"plain text":               {"250 2.0.0 Ok: queued as 4F2A", "not JSON"},
		"a NUL escape":             {`{"a":"x\u0000"}`, "NUL"},
		"a NUL escape in a key":    {`{"\u0000":1}`, "NUL"},
		"a raw NUL":                {"\x00", "not JSON"},
		"a lone high surrogate":    {`["\ud800"]`, ""},
		"a lone low surrogate":     {`["\udfff x"]`, ""},
		"a number beyond a double": {`[1e999]`, "not JSON"},
		"invalid UTF-8":            {"[\"\xff\"]", "not JSON"},
		"two values":               {"{}{}", "not JSON"},
		"a key twice":              {`{"a":1,"a":2}`, "changed"},
		"an id beyond a double":    {`{"id":9007199254740993}`, "changed"},
		"ten MiB":                  {`"` + long + `"`, "larger"},
		"deep nesting":             {strings.Repeat("[", 3000) + strings.Repeat("]", 3000), ""},
		"nesting beyond the limit": {strings.Repeat("[", 257) + strings.Repeat("]", 257), "nested"},
		"nesting within the limit": {strings.Repeat("[", 256) + strings.Repeat("]", 256), ""},
		"truncated":                {`{"id":"`, "not JSON"},
		"a line end":               {"\r\n", "not JSON"},
	} {
		e := channel.Evidence{ID: "m-1", Detail: json.RawMessage(c.detail)}
		var s stored
		raw := ledger.EncodeEvidence(e)
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Errorf("%s: stored is no JSON: %v", name, err)
			continue
		}
		if s.ID != "m-1" || ledger.EvidenceID(raw) != "m-1" {
			t.Errorf("%s: the id is %q", name, s.ID)
		}
		portable(t, name, raw)
		back := ledger.DecodeEvidence(raw)
		switch {
		case s.Raw == "" && len(c.detail) > 0 && !equalJSON(back.Detail, []byte(c.detail)):
			t.Errorf("%s: came back as %.100s", name, back.Detail)
		case s.Raw == "" && c.reason != "":
			t.Errorf("%s: stored as JSON, want base64 and a reason with %q", name, c.reason)
		case s.Raw != "" && !strings.HasPrefix(c.detail, string(back.Detail)):
			t.Errorf("%s: came back as other bytes", name)
		case s.Raw != "" && (s.Size != len(c.detail) || len(s.SHA256) != 64 || !strings.Contains(s.Reason, c.reason) || s.Reason == ""):
			t.Errorf("%s: size %d, digest %q, reason %q; want size %d and a reason with %q", name, s.Size, s.SHA256, s.Reason, len(c.detail), c.reason)
		}
	}
}

// portable fails unless the stored form is something that every JSON type of the databases takes: bounded, valid UTF-8, no NUL, no lone
// surrogate.
func portable(t *testing.T, name string, raw []byte) {
	t.Helper()
	switch {
	case !json.Valid(raw), !utf8.Valid(raw):
		t.Errorf("%s: not valid JSON in valid UTF-8: %.100q", name, raw)
	case len(raw) > 2*ledger.MaxEvidence:
		t.Errorf("%s: %d bytes are stored", name, len(raw))
	case bytes.Contains(bytes.ReplaceAll(raw, []byte(`\\`), nil), []byte(`\u0000`)):
		t.Errorf("%s: a NUL is stored", name)
	case bytes.Contains(bytes.ReplaceAll(raw, []byte(`\\`), nil), []byte(`\ud`)):
		t.Errorf("%s: a lone surrogate is stored: %.100s", name, raw)
	}
}

func equalJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}

func TestEvidenceIDThatIsNoTextIsKeptBesideIt(t *testing.T) {
	for name, id := range map[string]string{
		"NUL": "a\x00b", "invalid UTF-8": "\xff", "line end": "a\nb", "DEL": "a\x7f", "too long": strings.Repeat("a", ledger.MaxEvidenceID+1),
	} {
		raw := ledger.EncodeEvidence(channel.Evidence{ID: id})
		portable(t, name, raw)
		if got := ledger.EvidenceID(raw); got != "" {
			t.Errorf("%s: it counts as the id %q", name, got)
		}
		back := ledger.DecodeEvidence(raw)
		if !strings.HasPrefix(id, back.ID) || back.ID == "" {
			t.Errorf("%s: came back as %q", name, back.ID)
		}
		var s stored
		if json.Unmarshal(raw, &s) != nil || s.Reason == "" || s.RawID == "" {
			t.Errorf("%s: stored is %s", name, raw)
		}
		if _, err := base64.StdEncoding.DecodeString(s.RawID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if raw := ledger.EncodeEvidence(channel.Evidence{}); string(raw) != "{}" || ledger.EvidenceID(raw) != "" {
		t.Errorf("no evidence is stored as %s", raw)
	}
	if e := ledger.DecodeEvidence(nil); !e.Empty() {
		t.Errorf("nothing was read as %+v", e)
	}
}

func FuzzEncodeEvidence(f *testing.F) {
	for _, seed := range []string{"", `{"a":1}`, "\x00", `"\ud800"`, "[1e999]", "\xff", `{"a":"\u0000"}`, `"\\ud800"`, "[[[[", `{"a":1,"a":2}`, "-0", "1E400", `"\/"`} {
		f.Add("id", []byte(seed))
		f.Add(seed, []byte(`"x"`))
	}
	f.Fuzz(func(t *testing.T, id string, detail []byte) {
		raw := ledger.EncodeEvidence(channel.Evidence{ID: id, Detail: detail})
		portable(t, "fuzz", raw)
		var s stored
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(s.Reason, "could not be encoded") {
			t.Fatalf("evidence was lost: id %q, detail %q", id, detail)
		}
		back := ledger.DecodeEvidence(raw)
		if s.Raw != "" && !bytes.HasPrefix(detail, back.Detail) {
			t.Fatalf("detail %q came back as %q", detail, back.Detail)
		}
		if s.Raw == "" && len(detail) > 0 && !equalJSON(back.Detail, detail) {
			t.Fatalf("detail %q came back as %q", detail, back.Detail)
		}
		if !strings.HasPrefix(id, back.ID) || (id != "" && back.ID == "") {
			t.Fatalf("id %q came back as %q", id, back.ID)
		}
	})
}
