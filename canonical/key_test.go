package canonical

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func hexSum(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestKeysAreDigestsOfCanonicalIdentities(t *testing.T) {
	key := func(k string, err error) string {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
		return k
	}
	for _, c := range []struct{ name, got, want string }{
		{"telegram", key(TelegramKey("-1001234", "hi \"you\"\n")), "telegram:-1001234:" + hexSum(`"hi \"you\"\n"`)},
		{"telegram by name", key(TelegramKey("@pawl", "<é>")), "telegram:@pawl:" + hexSum(`"<é>"`)},
		{"farcaster", key(FarcasterKey("gm", []string{"https://example.org/"}, "dev")), "farcaster:cast:" + hexSum(`{"channel":"dev","embeds":["https://example.org/"],"text":"gm"}`)},
		{"farcaster, text alone", key(FarcasterKey("gm", nil, "")), "farcaster:cast:" + hexSum(`{"text":"gm"}`)},
		{"farcaster, nil list", key(FarcasterKey("gm", []string(nil), "")), "farcaster:cast:" + hexSum(`{"text":"gm"}`)},
		{"farcaster, empty list", key(FarcasterKey("gm", []any{}, "")), "farcaster:cast:" + hexSum(`{"embeds":[],"text":"gm"}`)},
		{"farcaster, embeds alone", key(FarcasterKey("", []any{map[string]any{"url": "u"}}, "")), "farcaster:cast:" + hexSum(`{"embeds":[{"url":"u"}],"text":""}`)},
		{"mail", key(MailKey([]string{"Ann@Example.ORG"}, "s", "b")), "mail:" + hexSum("Ann@example.org") + ":" + hexSum(`{"body":"b","subject":"s"}`)},
		{"mail to several", key(MailKey([]string{"b@x.org", "a@X.org", "B@x.org", "a@x.org"}, "", "b")), "mail:" + hexSum("B@x.org\na@x.org\nb@x.org") + ":" + hexSum(`{"body":"b","subject":""}`)},
		{"mail to astral names", key(MailKey([]string{"\ufb01@x.org", "\U0001F600@x.org"}, "s", "b")), "mail:" + hexSum("\U0001F600@x.org\n\ufb01@x.org") + ":" + hexSum(`{"body":"b","subject":"s"}`)},
		{"mail abroad", key(MailKey([]string{"info@MÜNCHEN.example"}, "s", "")), "mail:" + hexSum("info@xn--mnchen-3ya.example") + ":" + hexSum(`{"body":"","subject":"s"}`)},
		{"onchain", key(OnchainKey("8453", "0xAbC", "transfer(address,uint256)", []any{"0x1", "10"})), "onchain:8453:0xAbC:transfer(address,uint256):" + hexSum(`["0x1","10"]`)},
		{"onchain without arguments", key(OnchainKey("1", "0xAbC", "poke()", []any{})), "onchain:1:0xAbC:poke():" + hexSum(`[]`)},
		{"other", key(Key("webhook", map[string]any{"order": 7, "id": "x"})), "webhook:" + hexSum(`{"id":"x","order":7}`)},
		{"other with more prefix", key(Key("event:invoice", "x")), "event:invoice:" + hexSum(`"x"`)},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, c.got, c.want)
		}
		kind, err := KeyKind(c.got)
		if want, _, _ := strings.Cut(c.want, ":"); err != nil || kind != want {
			t.Errorf("KeyKind(%s) = %s, %v", c.got, kind, err)
		}
	}
}

func TestKeysRefuseEmptyAndAmbiguousParts(t *testing.T) {
	fails := func(_ string, err error) error { return err }
	long := strings.Repeat("m", MaxKeyBytes)
	for _, c := range []struct {
		part string
		err  error
	}{
		{"chatID", fails(TelegramKey("", "x"))},
		{"chatID", fails(TelegramKey("a:b", "x"))},
		{"chatID", fails(TelegramKey("a\nb", "x"))},
		{"chatID", fails(TelegramKey("\xff", "x"))},
		{"text", fails(TelegramKey("1", ""))},
		{"text", fails(TelegramKey("1", "\xff"))},
		{"text", fails(FarcasterKey("", nil, "dev"))},
		{"text", fails(FarcasterKey("", []any{}, "dev"))},
		{"text, embeds, channel", fails(FarcasterKey("x", []any{func() {}}, ""))},
		{"recipients", fails(MailKey(nil, "s", "b"))},
		{"recipients[1]", fails(MailKey([]string{"a@x.org", ""}, "s", "b"))},
		{"recipients[0]", fails(MailKey([]string{"Ann <a@x.org>"}, "s", "b"))},
		{"recipients[0]", fails(MailKey([]string{"a@x.org, b@x.org"}, "s", "b"))},
		{"recipients[0]", fails(MailKey([]string{"a@x.org\nb@x.org"}, "s", "b"))},
		{"recipients[0]", fails(MailKey([]string{"\"a\n\"@x.org"}, "s", "b"))},
		{"recipients[0]", fails(MailKey([]string{"@x.org"}, "s", "b"))},
		{"recipients[0]", fails(MailKey([]string{"a@"}, "s", "b"))},
		{"recipients[0]", fails(MailKey([]string{"\xff@x.org"}, "s", "b"))},
		{"subject", fails(MailKey([]string{"a@x.org"}, "", ""))},
		{"subject, body", fails(MailKey([]string{"a@x.org"}, "\xff", ""))},
		{"chainID", fails(OnchainKey("", "c", "m", []any{}))},
		{"chainID", fails(OnchainKey("eip155:1", "c", "m", []any{}))},
		{"contract", fails(OnchainKey("1", "", "m", []any{}))},
		{"method", fails(OnchainKey("1", "c", "", []any{}))},
		{"args", fails(OnchainKey("1", "c", "m", nil))},
		{"args", fails(OnchainKey("1", "c", "m", []any(nil)))},
		{"key", fails(OnchainKey("1", "c", long, []any{}))},
		{"prefix", fails(Key("", "x"))},
		{"prefix", fails(Key("a:", "x"))},
		{"prefix", fails(Key(":a", "x"))},
		{"identity", fails(Key("a", nil))},
		{"identity", fails(Key("a", ""))},
		{"identity", fails(Key("a", struct{}{}))},
		{"identity", fails(Key("a", map[string]any{}))},
		{"identity", fails(Key("a", [0]int{}))},
		{"identity", fails(Key("a", 1i))},
		{"key", fails(KeyKind(""))},
		{"key", fails(KeyKind("mail"))},
		{"kind", fails(KeyKind(":x"))},
		{"kind", fails(KeyKind("a b:x"))},
		{"identity", fails(KeyKind("mail:"))},
		{"key", fails(KeyKind("mail:\u200b"))},
		{"key", fails(KeyKind("mail:\xff"))},
		{"key", fails(KeyKind("mail:" + long))},
	} {
		var keyErr *KeyError
		if !errors.As(c.err, &keyErr) || keyErr.Part != c.part {
			t.Errorf("got %v, want a KeyError of %q", c.err, c.part)
		}
	}
}

func TestKeyErrorsCarryTheirCause(t *testing.T) {
	_, err := Key("webhook", map[string]string{"a": "\xff"})
	var syntax *SyntaxError
	if !errors.As(err, &syntax) || syntax.Path != "$.a" {
		t.Errorf("got %v", err)
	}
}

func TestParseKeyAcceptsWhatOthersMade(t *testing.T) {
	for key, want := range map[string][2]string{
		"mail:a:b":             {"mail", "a:b"},
		"file:step 1/ünïcode":  {"file", "step 1/ünïcode"},
		"x::":                  {"x", ":"},
		"onchain:1:0x:f(a, b)": {"onchain", "1:0x:f(a, b)"},
		"k:" + strings.Repeat("x", MaxKeyBytes-2): {"k", strings.Repeat("x", MaxKeyBytes-2)},
	} {
		kind, identity, err := ParseKey(key)
		if err != nil || kind != want[0] || identity != want[1] {
			t.Errorf("ParseKey(%q) = %q, %q, %v", key, kind, identity, err)
		}
	}
}

func TestResourceIDs(t *testing.T) {
	id, err := DeterministicResourceID("invoice", "2024/7")
	if err != nil {
		t.Fatal(err)
	}
	digest := hexSum(`{"key":"2024/7","kind":"invoice"}`)
	if id != "heart:resource:"+digest {
		t.Errorf("id = %s", id)
	}
	run, err := ResourceRunID(id)
	if err != nil {
		t.Fatal(err)
	}
	if len(run) != 36 || run[14] != '8' || !strings.ContainsRune("89ab", rune(run[19])) {
		t.Errorf("%s is not a UUID of version 8", run)
	}
	bare := strings.ReplaceAll(run, "-", "")
	for i := range bare {
		if i != 12 && i != 16 && bare[i] != digest[i] {
			t.Errorf("digit %d of %s is not that of the digest %s", i, run, digest)
		}
	}
	for _, c := range [][2]string{{"", "k"}, {"k", ""}, {"\xff", "k"}, {"k", "\xff"}} {
		if _, err := DeterministicResourceID(c[0], c[1]); err == nil {
			t.Errorf("DeterministicResourceID(%q, %q) is accepted", c[0], c[1])
		}
	}
	for _, bad := range []string{"", digest, "heart:resource:", "heart:resource:" + digest[1:], "heart:resource:" + strings.ToUpper(digest), "heart:resource:" + Algorithm + ":" + digest} {
		if _, err := ResourceRunID(bad); err == nil {
			t.Errorf("ResourceRunID(%q) is accepted", bad)
		}
	}
}

func TestParseDigest(t *testing.T) {
	want := SumBytes([]byte("{}"))
	for _, s := range []string{want.Hex(), want.Stamped(), want.String()} {
		if d, err := ParseDigest(s); err != nil || d != want {
			t.Errorf("ParseDigest(%s) = %v, %v", s, d, err)
		}
	}
	for s, text := range map[string]string{
		"":                                   "0 characters",
		want.Hex()[1:]:                       "63 characters",
		strings.ToUpper(want.Hex()):          "lower case",
		strings.Repeat("g", 64):              "invalid byte",
		"sha256:" + want.Hex():               `algorithm "sha256" is not`,
		"sha256:jcs:v1:" + want.Hex():        `algorithm "sha256:jcs:v1" is not`,
		Algorithm + ":":                      "0 characters",
		Algorithm + want.Hex():               "is not",
		Algorithm + "::" + want.Hex():        "is not",
		strings.Repeat("x", 5000) + ":" + "": "…",
	} {
		if _, err := ParseDigest(s); err == nil || !strings.Contains(err.Error(), text) || len(err.Error()) > 250 {
			t.Errorf("ParseDigest(%.80q) = %v, want %q", s, err, text)
		}
	}
}
