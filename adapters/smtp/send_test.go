package smtp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/adapters/smtp"
	"github.com/pawlworks/pawl/core/channel"
)

const payload = `{"to":"Ann <ann@example.test>","subject":"Hello","text":"first line\n.a dot\nlast line"}`

func open(t testing.TB, config json.RawMessage) channel.Channel {
	t.Helper()
	c, err := smtp.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func intentOf(key, payload string) channel.Intent {
	return channel.Intent{
		RunID: "8c1f7a2e-1111-8abc-8def-000000000001", EffectKey: "mail:" + key, Kind: "mail", Channel: "mail/test",
		Payload: []byte(payload), PayloadDigest: "digest", CreatedAt: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC),
	}
}

func attemptOf(t testing.TB, c channel.Channel, i channel.Intent) channel.Attempt {
	t.Helper()
	token, err := c.IdempotencyToken(context.Background(), channel.TokenRequest{Intent: i, Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	return channel.Attempt{
		Intent: i, Number: 1, Tokens: []channel.Token{token}, FirstSentAt: time.Now(),
		BeginFunc: func() error { return nil },
	}
}

// class is what an answer of Send means to the engine.
func class(outcome channel.Outcome, err error) string {
	var notSent *channel.NotSentError
	var rejected *channel.RejectedError
	switch {
	case err == nil && outcome.Kind == channel.OutcomeDelivered:
		return "delivered"
	case errors.As(err, &notSent) && channel.ProvenNotSent(err) && notSent.Configuration:
		return "configuration"
	case errors.As(err, &notSent) && channel.ProvenNotSent(err):
		return "not sent"
	case errors.As(err, &rejected) && channel.ProvenNotSent(err):
		return "rejected"
	}
	return "ambiguous"
}

// large makes the message larger than what the kernel's buffers hold.
func large(a channel.Attempt) channel.Attempt {
	line := strings.Repeat("x", 900) + "\r\n"
	data := append([]byte(nil), a.Tokens[0].Data...)
	a.Tokens = []channel.Token{a.Tokens[0]}
	a.Tokens[0].Data = append(data, strings.Repeat(line, (5<<20)/len(line))...)
	return a
}

func TestEveryAnswerAtEveryPhaseMeansWhatTheTableSays(t *testing.T) {
	const garbage = "\x16\x03 what is this"
	type cell struct{ action, want string }
	for _, phase := range []struct {
		at    step
		cells []cell
	}{
		{stepGreeting, []cell{
			{"220 ready", "delivered"}, {"421 4.3.2 busy", "not sent"}, {"554 5.7.1 go away", "configuration"},
			{actCut, "not sent"}, {garbage, "not sent"}, {actStall, "not sent"},
		}},
		{stepHello, []cell{
			{"250-scripted\r\n250 AUTH PLAIN", "delivered"}, {"421 4.3.2 busy", "not sent"}, {"550 5.7.1 bad name", "configuration"},
			{"250 scripted", "configuration"}, // no AUTH although there is a password
			{actCut, "not sent"}, {garbage, "not sent"}, {actStall, "not sent"},
		}},
		{stepStartTLS, []cell{
			{"220 go on", "delivered"}, {"454 4.7.0 not now", "not sent"}, {"502 5.5.1 no", "configuration"},
			{"220 go on\r\n250 injected", "not sent"},
			{actCut, "not sent"}, {garbage, "not sent"}, {actStall, "not sent"},
		}},
		{stepAuth, []cell{
			{"235 2.7.0 ok", "delivered"}, {"454 4.7.0 later", "not sent"}, {"535 5.7.8 wrong", "configuration"},
			{actCut, "not sent"}, {garbage, "not sent"}, {actStall, "not sent"},
		}},
		{stepMail, []cell{
			{"250 2.1.0 ok", "delivered"}, {"451 4.3.0 later", "not sent"}, {"550 5.1.7 bad sender", "rejected"},
			{"530 5.7.0 authenticate first", "configuration"}, {"354 what", "not sent"},
			{actCut, "not sent"}, {garbage, "not sent"}, {actStall, "not sent"},
		}},
		{stepRecipient, []cell{
			{"250 2.1.5 ok", "delivered"}, {"251 2.1.5 forwarded", "delivered"}, {"450 4.2.0 greylisted", "not sent"},
			{"550 5.1.1 no such user", "rejected"}, {actCut, "not sent"}, {garbage, "not sent"}, {actStall, "not sent"},
		}},
		{stepData, []cell{
			{"354 go on", "delivered"}, {"354-go\r\n354 on", "delivered"}, {"250 2.0.0 ok", "not sent"}, {"451 4.3.0 later", "not sent"},
			{"554 5.5.1 no valid recipients", "rejected"}, {"354 go on\r\n250 2.0.0 early", "not sent"},
			{actCut, "not sent"}, {garbage, "not sent"}, {actStall, "not sent"},
		}},
		{stepBody, []cell{
			{"250 2.0.0 early", "not sent"}, {"452 4.3.1 disk full", "not sent"}, {"552 5.3.4 too big", "not sent"},
			{actCut, "not sent"}, {garbage, "not sent"}, {actStall, "not sent"},
		}},
		{stepDot, []cell{
			{"250 2.0.0 Ok: queued as X", "delivered"}, {"250-2.0.0 Ok\r\n250 2.0.0 id=1", "delivered"},
			{"451 4.3.0 later", "not sent"}, {"550 5.7.1 spam", "rejected"}, {"535 5.7.8 odd", "rejected"},
			{"221 2.0.0 bye", "ambiguous"}, {"251 2.0.0 odd", "ambiguous"}, {"354 go on", "ambiguous"},
			{actCut, "ambiguous"}, {garbage, "ambiguous"}, {"25", "ambiguous"}, {actStall, "ambiguous"},
		}},
		{stepQuit, []cell{
			{"221 2.0.0 bye", "delivered"}, {"421 4.3.2 busy", "delivered"}, {"500 5.5.1 what", "delivered"},
			{actCut, "delivered"}, {garbage, "delivered"}, {actStall, "delivered"},
		}},
	} {
		for _, cell := range phase.cells {
			t.Run(fmt.Sprintf("%s/%q", phase.at, cell.action), func(t *testing.T) {
				t.Parallel()
				server := startScripted(t, phase.at, cell.action)
				changes := map[string]any{}
				if phase.at == stepStartTLS {
					changes = map[string]any{"tls": "starttls", "tls_ca_file": server.authority}
				}
				if cell.action == actStall { // nothing else may run into a time-out, however busy the machine is
					changes["command_timeout"], changes["reply_timeout"] = "1s", "1s"
				}
				c := open(t, server.config(t, changes))
				a := attemptOf(t, c, intentOf("one", payload))
				if phase.at == stepBody {
					a = large(a)
				}
				begun := 0
				a.BeginFunc = func() error { begun++; return nil }
				outcome, err := c.Send(t.Context(), a)
				server.stop()
				if got := class(outcome, err); got != cell.want {
					t.Fatalf("the answer means %q (%v), want %q", got, err, cell.want)
				}
				wantDots := 0
				if phase.at == stepDot || cell.want == "delivered" {
					wantDots = 1
				}
				if server.dots != wantDots || begun != wantDots {
					t.Fatalf("%d final dots and %d calls of Begin, want %d: %q", server.dots, begun, wantDots, server.lines)
				}
				if err != nil && (strings.Contains(err.Error(), "pass-word-1") || strings.ContainsAny(err.Error(), "\r\n")) {
					t.Fatalf("the error has a secret or several lines: %q", err)
				}
			})
		}
	}
}

func TestARefusedConnectionIsNotSent(t *testing.T) {
	server := startScripted(t, "", "")
	c := open(t, server.config(t, nil))
	server.stop()
	outcome, err := c.Send(t.Context(), attemptOf(t, c, intentOf("one", payload)))
	if got := class(outcome, err); got != "not sent" {
		t.Fatalf("a refused connection means %q (%v)", got, err)
	}
}

func TestBeginStandsBetweenTheWholeMessageAndItsDot(t *testing.T) {
	server := startScripted(t, "", "")
	c := open(t, server.config(t, nil))
	a := attemptOf(t, c, intentOf("one", payload))
	body := func() string {
		server.mu.Lock()
		defer server.mu.Unlock()
		return server.body.String()
	}
	a.BeginFunc = func() error {
		// Every byte but the dot reaches the server while Begin is running.
		waitFor(t, "the whole message", func() bool { return body() == string(a.Token().Data) })
		server.mu.Lock()
		defer server.mu.Unlock()
		if server.dots != 0 {
			t.Error("the dot was there before Begin agreed")
		}
		return nil
	}
	if outcome, err := c.Send(t.Context(), a); class(outcome, err) != "delivered" {
		t.Fatal(outcome, err)
	}
	if server.stop(); server.dots != 1 {
		t.Fatalf("%d final dots, want 1", server.dots)
	}
}

func TestARefusedBeginLeavesNoDotAndNoFurtherCommand(t *testing.T) {
	for _, protection := range []string{"none", "starttls"} {
		for name, refusal := range map[string]error{
			"typed":   channel.NotSent(errors.New("too late")),
			"untyped": errors.New("engine gone"),
		} {
			t.Run(protection+"/"+name, func(t *testing.T) {
				server := startScripted(t, "", "")
				c := open(t, server.config(t, map[string]any{"tls": protection, "tls_ca_file": server.authority}))
				a := attemptOf(t, c, intentOf("one", payload))
				a.BeginFunc = func() error { return refusal }
				_, err := c.Send(t.Context(), a)
				if err != refusal { //nolint:errorlint // unchanged is the promise
					t.Fatalf("Send returned %v, want the refusal unchanged", err)
				}
				lines := server.commands()
				last := lines[len(lines)-1]
				// A reset, not an end: a server that takes an end for a final dot gets none.
				if server.dots != 0 || !strings.HasPrefix(last, "unfinished: ") || !strings.Contains(last, "reset") {
					t.Fatalf("%d final dots, the last the server saw is %q", server.dots, last)
				}
			})
		}
	}
}

func TestACancelledCallBeforeTheDotIsNotSentAndAfterItAmbiguous(t *testing.T) {
	for _, test := range []struct {
		at   step
		want string
	}{{stepGreeting, "not sent"}, {stepMail, "not sent"}, {stepDot, "ambiguous"}} {
		t.Run(string(test.at), func(t *testing.T) {
			server := startScripted(t, test.at, actStall)
			c := open(t, server.config(t, map[string]any{"command_timeout": "1m", "reply_timeout": "1m"}))
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			outcome, err := c.Send(ctx, attemptOf(t, c, intentOf("one", payload)))
			if got := class(outcome, err); got != test.want {
				t.Fatalf("cancelled at %s: %q (%v), want %q", test.at, got, err, test.want)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("the error %v does not say that the call was cancelled", err)
			}
		})
	}
}

func TestTheNotAfterEndsTheWaitBeforeTheDotButNotTheWaitForTheReply(t *testing.T) {
	server := startScripted(t, stepMail, actStall)
	c := open(t, server.config(t, map[string]any{"command_timeout": "1m"}))
	a := attemptOf(t, c, intentOf("one", payload))
	a.NotAfter = time.Now().Add(200 * time.Millisecond)
	outcome, err := c.Send(t.Context(), a)
	if got := class(outcome, err); got != "not sent" {
		t.Fatalf("got %q (%v)", got, err)
	}

	slow := startScripted(t, stepDot, actStall)
	c = open(t, slow.config(t, map[string]any{"reply_timeout": "600ms"}))
	a = attemptOf(t, c, intentOf("one", payload))
	a.NotAfter = time.Now().Add(200 * time.Millisecond)
	began := time.Now()
	outcome, err = c.Send(t.Context(), a)
	if got := class(outcome, err); got != "ambiguous" || time.Since(began) < 500*time.Millisecond {
		t.Fatalf("got %q (%v) after %v: the wait for the reply was cut short", got, err, time.Since(began))
	}
}

func TestTheEvidenceIsTheMessageIDWithTheServersOwnWords(t *testing.T) {
	server := startScripted(t, "", "")
	c := open(t, server.config(t, nil))
	a := attemptOf(t, c, intentOf("one", payload))
	outcome, err := c.Send(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	var detail struct {
		MessageID string `json:"message_id"`
		Reply     string `json:"reply"`
		Recipient string `json:"recipient"`
	}
	if err := json.Unmarshal(outcome.Evidence.Detail, &detail); err != nil {
		t.Fatal(err)
	}
	if detail.MessageID != outcome.Evidence.ID || detail.Reply != "250 2.0.0 Ok: queued as ABC123" || detail.Recipient != "ann@example.test" {
		t.Fatalf("evidence %+v with detail %s", outcome.Evidence.ID, outcome.Evidence.Detail)
	}
	if !strings.Contains(string(a.Token().Data), "Message-ID: <"+outcome.Evidence.ID+">") {
		t.Fatal("the message does not carry the id")
	}
}

func TestAServerThatEchoesThePasswordDoesNotGetItIntoAnError(t *testing.T) {
	for _, reply := range []string{"535 5.7.8 wrong: pass-word-1", "535 5.7.8 wrong: AHVzZXIAcGFzcy13b3JkLTE=", "421 4.3.0 pass-word-1"} {
		server := startScripted(t, stepAuth, reply)
		c := open(t, server.config(t, nil))
		_, err := c.Send(t.Context(), attemptOf(t, c, intentOf("one", payload)))
		if err == nil || strings.Contains(err.Error(), "pass-word-1") || strings.Contains(err.Error(), "AHVzZXIA") {
			t.Fatalf("got %v", err)
		}
	}
}

func TestAnAddressBeyondASCIIIsRejectedWhereTheServerCannotTakeIt(t *testing.T) {
	server := startScripted(t, "", "")
	c := open(t, server.config(t, nil))
	a := attemptOf(t, c, intentOf("one", `{"to":"jörg@example.test","subject":"s","text":"t"}`))
	outcome, err := c.Send(t.Context(), a)
	if class(outcome, err) != "rejected" || !strings.Contains(err.Error(), "SMTPUTF8") {
		t.Fatalf("got %v", err)
	}
	server.stop()

	able := startScripted(t, "", "")
	able.offers = append(able.offers, "SMTPUTF8")
	c = open(t, able.config(t, nil))
	if outcome, err := c.Send(t.Context(), a); class(outcome, err) != "delivered" {
		t.Fatal(err)
	}
	if lines := strings.Join(able.commands(), "\n"); !strings.Contains(lines, "SMTPUTF8") || !strings.Contains(lines, "RCPT TO:<jörg@example.test>") {
		t.Fatalf("the envelope was %s", lines)
	}
}

func TestAMessageLargerThanTheServerTakesIsRejectedBeforeItIsSent(t *testing.T) {
	server := startScripted(t, "", "")
	server.offers = []string{"AUTH PLAIN", "SIZE 100"}
	c := open(t, server.config(t, nil))
	outcome, err := c.Send(t.Context(), attemptOf(t, c, intentOf("one", payload)))
	if class(outcome, err) != "rejected" {
		t.Fatalf("got %v", err)
	}
	for _, line := range server.commands() {
		if strings.HasPrefix(line, "MAIL") {
			t.Fatal("a mail transaction was begun")
		}
	}
}

func TestAForeignTokenIsNotSent(t *testing.T) {
	server := startScripted(t, "", "")
	c := open(t, server.config(t, nil))
	for name, change := range map[string]func(*channel.Token){
		"no hint":        func(t *channel.Token) { t.Hint = nil },
		"hint of others": func(t *channel.Token) { t.Hint = json.RawMessage(`{"nonce":1}`) },
		"bare line feed": func(t *channel.Token) { t.Data = append([]byte("Subject: a\nBcc: b\r\n\r\n"), t.Data...) },
		"no end":         func(t *channel.Token) { t.Data = []byte("Subject: a") },
		"no data":        func(t *channel.Token) { t.Data = nil },
	} {
		a := attemptOf(t, c, intentOf("one", payload))
		change(&a.Tokens[0])
		if outcome, err := c.Send(t.Context(), a); class(outcome, err) != "not sent" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if server.stop(); len(server.lines) != 0 {
		t.Fatalf("the server was told %q", server.lines)
	}
}

func TestAReplyOutOfTurnInsideTLSIsNotSent(t *testing.T) {
	for at, action := range map[step]string{stepBody: "250 2.0.0 early", stepData: "354 go on\r\n250 2.0.0 early"} {
		t.Run(string(at), func(t *testing.T) {
			server := startScripted(t, at, action)
			c := open(t, server.config(t, map[string]any{"tls": "starttls", "tls_ca_file": server.authority}))
			outcome, err := c.Send(t.Context(), large(attemptOf(t, c, intentOf("one", payload))))
			server.stop()
			if got := class(outcome, err); got != "not sent" || server.dots != 0 {
				t.Fatalf("%q (%v) with %d final dots", got, err, server.dots)
			}
		})
	}
}
