package smtp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/mail"
	"slices"
	"sort"
	"strings"
	"testing"
	"unicode"

	"github.com/emersion/go-message"
	"pgregory.net/rapid"

	"github.com/pawlworks/pawl/adapters/smtp"
	"github.com/pawlworks/pawl/core/channel"
)

const plainConfig = `{"host":"mail.example.test","tls":"none","from":"Shop <shop@example.test>","senders":["Sales <sales@example.test>"],"headers":["X-Campaign"]}`

func tokenOf(c channel.Channel, payload any) (channel.Token, error) {
	raw, err := json.Marshal(payload)
	if err != nil {
		return channel.Token{}, err
	}
	return c.IdempotencyToken(context.Background(), channel.TokenRequest{Intent: intentOf("one", string(raw)), Version: 1})
}

func TestTheTokenIsTheSameAtEveryMaking(t *testing.T) {
	full := map[string]any{
		"to": "ann@example.test", "subject": "s", "text": "t", "html": "<p>t</p>", "headers": map[string]string{"X-Campaign": "c", "List-Id": "<l>"},
		"attachments": []any{map[string]any{"name": "a.txt", "content_type": "text/plain; charset=utf-8", "content": []byte("hello")}},
	}
	first, err := tokenOf(open(t, json.RawMessage(plainConfig)), full)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		next, err := tokenOf(open(t, json.RawMessage(plainConfig)), full)
		if err != nil || !bytes.Equal(first.Data, next.Data) || !bytes.Equal(first.Hint, next.Hint) {
			t.Fatalf("%v\n%s\n%s", err, first.Data, next.Data)
		}
	}
}

func TestDifferentIntentsHaveDifferentMessageIDs(t *testing.T) {
	c := open(t, json.RawMessage(plainConfig))
	seen := map[string]string{}
	for _, i := range []struct{ run, key string }{{"a", "mail:bc"}, {"ab", "mail:c"}, {"a", "mail:b"}, {"", "amail:bc"}} {
		intent := intentOf("", `{"to":"ann@example.test","subject":"s","text":"t"}`)
		intent.RunID, intent.EffectKey = i.run, i.key
		token, err := c.IdempotencyToken(t.Context(), channel.TokenRequest{Intent: intent, Version: 1})
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := mail.ReadMessage(bytes.NewReader(token.Data))
		if err != nil {
			t.Fatal(err)
		}
		id := parsed.Header.Get("Message-ID")
		if other, taken := seen[id]; taken {
			t.Fatalf("%v and %s share %s", i, other, id)
		}
		seen[id] = fmt.Sprint(i)
	}
}

func TestControlCharactersInAHeaderFieldAreRefusedByName(t *testing.T) {
	c := open(t, json.RawMessage(plainConfig))
	for _, attack := range []string{"a\r\nBcc: eve@example.test", "a\nBcc: eve@example.test", "a\rBcc: eve@example.test", "a\x00b", "a\u2028b", "a\u0085b", "a\x7f", "a\r\n\r\nbody"} {
		for field, payload := range map[string]map[string]any{
			"to":                          {"to": attack + " <ann@example.test>"},
			"to ":                         {"to": "ann@example.test" + attack},
			"from":                        {"from": attack + " <sales@example.test>"},
			"reply_to":                    {"reply_to": attack + " <ann@example.test>"},
			"subject":                     {"subject": attack},
			"headers.X-Campaign":          {"headers": map[string]string{"X-Campaign": attack}},
			"headers.List-Id":             {"headers": map[string]string{"List-Id": attack}},
			"headers":                     {"headers": map[string]string{"X-Campaign: " + attack: "v"}},
			"attachments[0].name":         {"attachments": []any{map[string]any{"name": attack, "content_type": "text/plain", "content": ""}}},
			"attachments[0].content_type": {"attachments": []any{map[string]any{"name": "a", "content_type": "text/plain;" + attack, "content": ""}}},
		} {
			whole := map[string]any{"to": "ann@example.test", "subject": "s", "text": "t"}
			for k, v := range payload {
				whole[k] = v
			}
			_, err := tokenOf(c, whole)
			var rejected *channel.RejectedError
			if !errors.As(err, &rejected) || !strings.Contains(err.Error(), strings.TrimSpace(field)) {
				t.Errorf("%s with %q: got %v, want a rejection that names the field", field, attack, err)
			}
		}
	}
}

func TestAnEncodedWordCannotSmuggleAControlCharacter(t *testing.T) {
	c := open(t, json.RawMessage(plainConfig))
	_, err := tokenOf(c, map[string]any{"to": "=?utf-8?q?a=0D=0ABcc:_eve@example.test?= <ann@example.test>", "subject": "s", "text": "t"})
	if err == nil {
		t.Fatal("accepted")
	}
}

func TestSeveralRecipientsAreRejectedWithTheAdviceToClaimOneIntentEach(t *testing.T) {
	c := open(t, json.RawMessage(plainConfig))
	for _, to := range []any{[]string{"a@example.test", "b@example.test"}, "a@example.test, b@example.test", []string{"a@example.test"}} {
		_, err := tokenOf(c, map[string]any{"to": to, "subject": "s", "text": "t"})
		var rejected *channel.RejectedError
		if !errors.As(err, &rejected) || !strings.Contains(err.Error(), "one intent for each recipient") {
			t.Errorf("%v: %v", to, err)
		}
	}
}

func TestPayloadsThatCannotBeSentAreRejectedByField(t *testing.T) {
	c := open(t, json.RawMessage(plainConfig))
	for want, payload := range map[string]string{
		`"cc"`:                         `{"to":"a@example.test","subject":"s","text":"t","cc":"b@example.test"}`,
		"from":                         `{"to":"a@example.test","subject":"s","text":"t","from":"boss@example.test"}`,
		"is not an address":            `{"to":"nobody","subject":"s","text":"t"}`,
		"to":                           `{"subject":"s","text":"t"}`,
		"quoted":                       `{"to":"\"a b\"@example.test","subject":"s","text":"t"}`,
		"domain":                       `{"to":"a@[127.0.0.1]","subject":"s","text":"t"}`,
		"headers.Bcc":                  `{"to":"a@example.test","subject":"s","text":"t","headers":{"Bcc":"eve@example.test"}}`,
		"headers.x-smtpapi":            `{"to":"a@example.test","subject":"s","text":"t","headers":{"x-smtpapi":"{}"}}`,
		"twice":                        `{"to":"a@example.test","subject":"s","text":"t","headers":{"List-Id":"<a>","list-id":"<b>"}}`,
		"headers.In-Reply-To":          `{"to":"a@example.test","subject":"s","text":"t","headers":{"In-Reply-To":"<ä@b>"}}`,
		"attachments[0].content_type":  `{"to":"a@example.test","subject":"s","text":"t","attachments":[{"name":"a","content_type":"message/rfc822","content":""}]}`,
		"attachments[0].content_type:": `{"to":"a@example.test","subject":"s","text":"t","attachments":[{"name":"a","content_type":"nonsense","content":""}]}`,
		"subject":                      `{"to":"a@example.test","subject":"` + strings.Repeat("x", 1000) + `","text":"t"}`,
		"JSON object":                  `{"to":"a@example.test","subject":"s","text":"t"} {}`,
		"payload":                      `not JSON`,
	} {
		_, err := c.IdempotencyToken(t.Context(), channel.TokenRequest{Intent: intentOf("one", payload), Version: 1})
		var rejected *channel.RejectedError
		if !errors.As(err, &rejected) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a rejection about %s", payload[:min(len(payload), 80)], err, want)
		}
	}
}

func TestInternationalDomainsAreSentAsALabels(t *testing.T) {
	c := open(t, json.RawMessage(plainConfig))
	token, err := tokenOf(c, map[string]any{"to": "Jörg <info@Bücher.example>", "subject": "s", "text": "t"})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(token.Data, []byte("<info@xn--bcher-kva.example>")) || !strings.Contains(string(token.Hint), `"info@xn--bcher-kva.example"`) {
		t.Fatalf("%s\n%s", token.Hint, token.Data)
	}
}

// Text as people write it, with what breaks mail software mixed in; line is for fields that must be one line.
var (
	nasty = []string{"\r\n", "\n", "\r", "\x00", "\t", "\u2028", "\r\n.\r\n", "\r\nBcc: eve@example.test\r\n"}
	odd   = []string{"Bcc: eve@example.test", "=?utf-8?q?x=0A?=", ".", "--=_m_", "=3D", " ", "  ", "ä", "日本", strings.Repeat("w", 120), "<", ">", `"`, "@", ";", "\\", "a", "=?"}
)

func text() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.OneOf(rapid.StringN(0, 8, 24), rapid.SampledFrom(nasty), rapid.SampledFrom(odd))
		return strings.Join(rapid.SliceOfN(parts, 0, 6).Draw(t, "parts"), "")
	})
}

func line() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 19).Draw(t, "nasty") == 0 {
			return text().Draw(t, "text")
		}
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(odd), 1, 4).Draw(t, "parts"), "")
	})
}

func TestWhateverAPayloadSaysTheMessageHasTheFieldsOfThePayloadAndNoOthers(t *testing.T) {
	c := open(t, json.RawMessage(plainConfig))
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		name, subject, campaign := line().Draw(t, "name"), line().Draw(t, "subject"), line().Draw(t, "campaign")
		body, html, file := text().Draw(t, "text"), text().Draw(t, "html"), line().Draw(t, "file")
		quoted := mime.BEncoding.Encode("utf-8", name)
		if quoted == name { // plain ASCII
			quoted = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
		}
		quoted += " <ann@example.test>"
		payload := map[string]any{
			"to": quoted, "subject": subject, "text": body, "html": html,
			"headers":     map[string]string{"X-Campaign": campaign},
			"attachments": []any{map[string]any{"name": file, "content_type": "application/pdf", "content": []byte(body)}},
		}
		token, err := tokenOf(c, payload)
		if err != nil {
			var rejected *channel.RejectedError
			if !errors.As(err, &rejected) || !strings.Contains(err.Error(), "payload field") {
				t.Fatalf("the error names no field: %v", err)
			}
			// A name that looks encoded is decoded by whoever reads the payload, to a line feed here.
			if !slices.ContainsFunc([]string{name, subject, campaign, file}, strange) && !strings.Contains(name, "=?") {
				t.Fatalf("refused without need: %v", err)
			}
			return
		}
		accepted++
		checkLines(t, token.Data)
		entity, err := message.Read(bytes.NewReader(token.Data))
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for fields := entity.Header.Fields(); fields.Next(); {
			keys = append(keys, fields.Key())
		}
		sort.Strings(keys)
		if got := strings.Join(keys, " "); got != "Content-Type Date From Message-Id Mime-Version Subject To X-Campaign" {
			t.Fatalf("the fields are %s", got)
		}
		decoder := mime.WordDecoder{}
		if got, err := decoder.DecodeHeader(unfold(entity.Header.Get("Subject"))); err != nil || got != subject {
			t.Fatalf("subject %q became %q (%v)", subject, got, err)
		}
		if got, err := decoder.DecodeHeader(unfold(entity.Header.Get("X-Campaign"))); err != nil || got != campaign {
			t.Fatalf("campaign %q became %q (%v)", campaign, got, err)
		}
		to, err := mail.ParseAddressList(entity.Header.Get("To"))
		if err != nil || len(to) != 1 || to[0].Address != "ann@example.test" ||
			!strings.Contains(name, "=?") && !slices.Equal(strings.Fields(to[0].Name), strings.Fields(name)) { // readers fold spaces in names
			t.Fatalf("To is %q (%v)", entity.Header.Get("To"), err)
		}
		var bodies []string
		if err := entity.Walk(func(_ []int, part *message.Entity, err error) error {
			if err != nil || part.MultipartReader() != nil {
				return err
			}
			if _, parameters, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition")); parameters != nil && parameters["filename"] != file {
				t.Fatalf("the file name %q became %q", file, parameters["filename"])
			}
			body, err := io.ReadAll(part.Body)
			bodies = append(bodies, string(body))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		want := []string{lineEnds(body), lineEnds(html), body}
		if html == "" {
			want = []string{lineEnds(body), body}
		}
		if !slices.Equal(bodies, want) {
			t.Fatalf("the parts are %q, want %q", bodies, want)
		}
	})
	if accepted == 0 {
		t.Fatal("no generated payload was accepted")
	}
}

// strange reports whether a header field may refuse the text.
func strange(text string) bool {
	return text == "" || len(text) > 200 || strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar
	})
}

func unfold(s string) string { return strings.ReplaceAll(s, "\r\n", "") }

func lineEnds(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	return strings.ReplaceAll(s, "\n", "\r\n")
}

func checkLines(t *rapid.T, raw []byte) {
	for line := range bytes.SplitSeq(bytes.TrimSuffix(raw, []byte("\r\n")), []byte("\r\n")) {
		if len(line) > 998 || bytes.ContainsAny(line, "\r\n\x00") {
			t.Fatalf("a line of the message is %q", line)
		}
	}
}

func ExampleNew() {
	c, err := smtp.New(context.Background(), json.RawMessage(`{"host":"mail.example.org","from":"Shop <shop@example.org>"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	token, err := c.IdempotencyToken(context.Background(), channel.TokenRequest{Version: 1, Intent: channel.Intent{
		RunID: "8c1f7a2e-0000-8abc-8def-000000000001", EffectKey: "mail:welcome",
		Payload: []byte(`{"to":["a@example.org","b@example.org"],"subject":"Welcome","text":"Hello"}`),
	}})
	fmt.Println(len(token.Data), err)
	// Output: 0 rejected: payload field to: holds several addresses: claim one intent for each recipient, so that each mail has an outcome of its own
}
