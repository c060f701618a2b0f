package smtp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/pawlworks/pawl/conformance/world/mailbox"
	"github.com/pawlworks/pawl/conformance/world/proxy"
	"github.com/pawlworks/pawl/core/channel"
)

// refining is how a channel tells what it claims once it is configured.
type refining interface{ Sheet() channel.Sheet }

func box(t *testing.T, options mailbox.Options) *mailbox.Mailbox {
	t.Helper()
	m, err := mailbox.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func hostPort(t *testing.T, address string) (string, int) {
	t.Helper()
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

// boxConfig configures a channel for the mailbox world. Changes with the prefix "imap." go into that part.
func boxConfig(t *testing.T, m *mailbox.Mailbox, smtpAddress string, changes map[string]any) json.RawMessage {
	t.Helper()
	authority := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(authority, m.AuthorityPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	host, port := hostPort(t, smtpAddress)
	imapHost, imapPort := hostPort(t, m.IMAPSAddr())
	imap := map[string]any{
		"host": imapHost, "port": imapPort, "tls_ca_file": authority, "username": mailbox.DefaultUser, "password": mailbox.DefaultPassword,
		"stored_before_reply": true, "timeout": "5s",
	}
	config := map[string]any{
		"host": host, "port": port, "tls": "none", "tls_ca_file": authority, "from": "shop@example.test",
		"reply_timeout": "5s", "command_timeout": "5s", "server_session_timeout": "2s",
	}
	for key, value := range changes {
		if rest, ok := strings.CutPrefix(key, "imap."); ok {
			imap[rest] = value
			continue
		}
		config[key] = value
	}
	if _, without := changes["imap"]; !without {
		config["imap"] = imap
	} else {
		delete(config, "imap")
	}
	b, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wantFinding(t *testing.T, c channel.Channel, a channel.Attempt, want channel.FindingKind) channel.Finding {
	t.Helper()
	finding, err := c.Probe(t.Context(), a)
	if err != nil {
		t.Fatalf("probe: %v", err)
	}
	if finding.Kind != want {
		t.Fatalf("the probe says %v (%s), want %v", finding.Kind, finding.Reason, want)
	}
	return finding
}

func TestASwallowedReplyIsAmbiguousAndTheProbeFindsTheOneMail(t *testing.T) {
	m := box(t, mailbox.Options{})
	p, err := proxy.Start("127.0.0.1:0", m.SMTPAddr(), proxy.SwallowFinalReply())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	c := open(t, boxConfig(t, m, p.Addr(), nil))
	a := attemptOf(t, c, intentOf("one", payload))
	wantFinding(t, c, a, channel.FindingAbsentForGood)
	outcome, err := c.Send(t.Context(), a)
	if got := class(outcome, err); got != "ambiguous" {
		t.Fatalf("Send means %q (%v)", got, err)
	}
	finding := wantFinding(t, c, a, channel.FindingSent)
	if finding.Match != channel.MatchExact || m.Count(finding.Evidence.ID) != 1 || len(m.Deliveries()) != 1 {
		t.Fatalf("found %+v, the mailbox has %d mails", finding, len(m.Deliveries()))
	}
}

func TestAMailCutAtTheGapsOfTheServerIsFoundOrProvenAbsent(t *testing.T) {
	for _, test := range []struct {
		phase mailbox.Phase
		class string
		want  channel.FindingKind
	}{
		{mailbox.PhaseRecipient, "not sent", channel.FindingAbsentForGood},
		{mailbox.PhaseDot, "ambiguous", channel.FindingAbsentForGood},
		{mailbox.PhaseAccepted, "ambiguous", channel.FindingSent},
	} {
		t.Run(string(test.phase), func(t *testing.T) {
			m := box(t, mailbox.Options{})
			m.Inject(mailbox.Fault{Phase: test.phase, Cut: true})
			c := open(t, boxConfig(t, m, m.SMTPAddr(), nil))
			a := attemptOf(t, c, intentOf("one", payload))
			outcome, err := c.Send(t.Context(), a)
			if got := class(outcome, err); got != test.class {
				t.Fatalf("Send means %q (%v), want %q", got, err, test.class)
			}
			wantFinding(t, c, a, test.want)
		})
	}
}

func TestAMailThatTheServerStoresAfterTheProbeMakesThatProbesAbsenceWrong(t *testing.T) {
	// The reason for the settle time: the sender is gone, the server still has the whole mail in its hands.
	m := box(t, mailbox.Options{})
	release := make(chan struct{})
	m.Inject(mailbox.Fault{Phase: mailbox.PhaseDot, Hold: release})
	c := open(t, boxConfig(t, m, m.SMTPAddr(), map[string]any{"reply_timeout": "200ms"}))
	a := attemptOf(t, c, intentOf("one", payload))
	outcome, err := c.Send(t.Context(), a)
	if got := class(outcome, err); got != "ambiguous" {
		t.Fatalf("Send means %q (%v)", got, err)
	}
	wantFinding(t, c, a, channel.FindingAbsentForGood)
	close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := m.AwaitPhase(ctx, mailbox.PhaseAccepted); err != nil {
		t.Fatal(err)
	}
	wantFinding(t, c, a, channel.FindingSent)
	if s := c.(refining).Sheet(); s.SettleTime.D() != 2*time.Second {
		t.Fatalf("the settle time is %v, want the server's session time-out", s.SettleTime)
	}
}

func TestAnAbsenceIsProofOnlyWhereTheOperatorSaysSo(t *testing.T) {
	m := box(t, mailbox.Options{})
	for name, test := range map[string]struct {
		changes  map[string]any
		want     channel.FindingKind
		strength channel.Strength
		negative bool
	}{
		"the server's own store": {nil, channel.FindingAbsentForGood, channel.ProbeExact, true},
		"any other mailbox":      {map[string]any{"imap.stored_before_reply": false}, channel.FindingAbsentNow, channel.ProbeExact, false},
		"no mailbox":             {map[string]any{"imap": nil}, channel.FindingUnknown, channel.ProbeNone, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, boxConfig(t, m, m.SMTPAddr(), test.changes))
			wantFinding(t, c, attemptOf(t, c, intentOf("never sent", payload)), test.want)
			if s := c.(refining).Sheet(); s.Probe != test.strength || s.NegativeProof != test.negative || s.Normal().NegativeProof != test.negative {
				t.Fatalf("the sheet claims %v and negative proof %v", s.Probe, s.NegativeProof)
			}
		})
	}
}

func TestAnEmptyMailboxProvesNothing(t *testing.T) {
	m := box(t, mailbox.Options{EmptyAtStart: true})
	c := open(t, boxConfig(t, m, m.SMTPAddr(), nil))
	if finding := wantFinding(t, c, attemptOf(t, c, intentOf("one", payload)), channel.FindingAbsentNow); finding.Control {
		t.Fatal("the control passed in an empty mailbox")
	}
	if outcome, err := c.Send(t.Context(), attemptOf(t, c, intentOf("other", payload))); class(outcome, err) != "delivered" {
		t.Fatal(err)
	}
	wantFinding(t, c, attemptOf(t, c, intentOf("one", payload)), channel.FindingAbsentForGood)
}

func TestAMailboxThatBeganAfterTheFirstAttemptProvesNoAbsence(t *testing.T) {
	m := box(t, mailbox.Options{}) // it holds a mail: the control passes
	c := open(t, boxConfig(t, m, m.SMTPAddr(), nil))
	a := attemptOf(t, c, intentOf("one", payload))
	a.FirstSentAt = time.Now().Add(-time.Hour) // the mailbox of that time was emptied, or exchanged
	wantFinding(t, c, a, channel.FindingUnknown)
	a.FirstSentAt = time.Now().Add(time.Second)
	wantFinding(t, c, a, channel.FindingAbsentForGood)
}

func TestAMailboxThatCannotBeReadIsUnknownNeverAbsent(t *testing.T) {
	m := box(t, mailbox.Options{})
	for name, changes := range map[string]map[string]any{
		"wrong password": {"imap.password": "pass-word-2"},
		"wrong mailbox":  {"imap.mailbox": "Elsewhere"},
		"wrong port":     {"imap.port": 1},
		"no trust":       {"imap.tls_ca_file": ""},
		"no TLS there":   {"imap.tls": "none", "imap.allow_plaintext_password": true, "imap.timeout": "500ms"},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, boxConfig(t, m, m.SMTPAddr(), changes))
			finding, err := c.Probe(t.Context(), attemptOf(t, c, intentOf("one", payload)))
			if err == nil {
				t.Fatalf("the probe says %v", finding.Kind)
			}
			if strings.Contains(err.Error(), "pass-word-2") {
				t.Fatalf("the error shows the password: %v", err)
			}
		})
	}
}

func TestAProbeLooksForTheIdOfTheStoredTokenAfterTheDomainChanged(t *testing.T) {
	m := box(t, mailbox.Options{})
	before := open(t, boxConfig(t, m, m.SMTPAddr(), map[string]any{"domain": "old.example.test"}))
	a := attemptOf(t, before, intentOf("one", payload))
	if outcome, err := before.Send(t.Context(), a); class(outcome, err) != "delivered" {
		t.Fatal(err)
	}
	after := open(t, boxConfig(t, m, m.SMTPAddr(), map[string]any{"domain": "new.example.test"}))
	wantFinding(t, after, a, channel.FindingSent)
}

func TestAProbeWithoutATokenSearchesByTheIntent(t *testing.T) {
	// A restored ledger may have lost the token.
	m := box(t, mailbox.Options{})
	c := open(t, boxConfig(t, m, m.SMTPAddr(), nil))
	a := attemptOf(t, c, intentOf("one", payload))
	if outcome, err := c.Send(t.Context(), a); class(outcome, err) != "delivered" {
		t.Fatal(err)
	}
	a.Tokens = nil
	if finding := wantFinding(t, c, a, channel.FindingSent); finding.Match != channel.MatchExact {
		t.Fatal("the match is not exact")
	}
}

func TestAnIdThatOnlyContainsOursAndAMailToSomebodyElseAreNotTakenForOurs(t *testing.T) {
	m := box(t, mailbox.Options{})
	c := open(t, boxConfig(t, m, m.SMTPAddr(), nil))
	a := attemptOf(t, c, intentOf("one", payload))
	var hint struct {
		ID string `json:"message_id"`
	}
	if err := json.Unmarshal(a.Token().Hint, &hint); err != nil {
		t.Fatal(err)
	}
	foreign := func(id, to string) {
		t.Helper()
		client, err := smtp.Dial(m.SMTPAddr())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		text := "From: x@example.test\r\nTo: " + to + "\r\nSubject: s\r\nMessage-ID: " + id + "\r\n\r\nbody\r\n"
		if err := client.SendMail("x@example.test", []string{"ann@example.test"}, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	foreign("<x <"+hint.ID+"> y@example.test>", "ann@example.test")
	foreign("<"+hint.ID+".example.org>", "ann@example.test")
	wantFinding(t, c, a, channel.FindingAbsentForGood)
	foreign("<"+hint.ID+">", "bob@example.test")
	if finding := wantFinding(t, c, a, channel.FindingSent); finding.Match != channel.MatchHeuristic {
		t.Fatal("a mail to somebody else is an exact match")
	}
}

func TestAProbeThatCannotLookBackFarEnoughIsUnknown(t *testing.T) {
	m := box(t, mailbox.Options{})
	c := open(t, boxConfig(t, m, m.SMTPAddr(), map[string]any{"imap.kept_for": "24h"}))
	a := attemptOf(t, c, intentOf("one", payload))
	a.FirstSentAt = time.Now().Add(-25 * time.Hour)
	wantFinding(t, c, a, channel.FindingUnknown)
	if s := c.(refining).Sheet(); s.ProbeHorizon.D() != 24*time.Hour {
		t.Fatalf("the horizon is %v", s.ProbeHorizon)
	}
}

func TestEveryProtectionAndAuthenticationDelivers(t *testing.T) {
	m := box(t, mailbox.Options{RequireAuth: true})
	for name, test := range map[string]struct {
		address string
		changes map[string]any
	}{
		"starttls": {m.SMTPAddr(), map[string]any{"tls": "starttls"}},
		"implicit": {m.SMTPSAddr(), map[string]any{"tls": "implicit"}},
		"none":     {m.SMTPAddr(), map[string]any{"allow_plaintext_password": true}},
	} {
		for _, imap := range []string{"implicit", "starttls"} {
			t.Run(name+"/"+imap, func(t *testing.T) {
				test.changes["username"], test.changes["password"] = mailbox.DefaultUser, mailbox.DefaultPassword
				_, port := hostPort(t, map[string]string{"implicit": m.IMAPSAddr(), "starttls": m.IMAPAddr()}[imap])
				test.changes["imap.tls"], test.changes["imap.port"] = imap, port
				c := open(t, boxConfig(t, m, test.address, test.changes))
				a := attemptOf(t, c, intentOf(t.Name(), payload))
				outcome, err := c.Send(t.Context(), a)
				if class(outcome, err) != "delivered" {
					t.Fatal(err)
				}
				if finding := wantFinding(t, c, a, channel.FindingSent); finding.Evidence.ID != outcome.Evidence.ID {
					t.Fatalf("found %s, sent %s", finding.Evidence.ID, outcome.Evidence.ID)
				}
			})
		}
	}
	t.Run("an authority that is not trusted", func(t *testing.T) {
		c := open(t, boxConfig(t, m, m.SMTPAddr(), map[string]any{"tls": "starttls", "tls_ca_file": ""}))
		outcome, err := c.Send(t.Context(), attemptOf(t, c, intentOf("one", payload)))
		if class(outcome, err) != "configuration" {
			t.Fatal(err)
		}
	})
	t.Run("a wrong password", func(t *testing.T) {
		c := open(t, boxConfig(t, m, m.SMTPAddr(), map[string]any{"tls": "starttls", "username": mailbox.DefaultUser, "password": "pass-word-2"}))
		outcome, err := c.Send(t.Context(), attemptOf(t, c, intentOf("one", payload)))
		if class(outcome, err) != "configuration" || strings.Contains(err.Error(), "pass-word-2") {
			t.Fatal(err)
		}
	})
}

func TestManySendsAtOnceMakeOneMailEach(t *testing.T) {
	m := box(t, mailbox.Options{})
	c := open(t, boxConfig(t, m, m.SMTPAddr(), map[string]any{"tls": "starttls"}))
	const mails = 20
	results := make(chan error, mails)
	for k := range mails {
		a := attemptOf(t, c, intentOf(strconv.Itoa(k), payload))
		go func() {
			outcome, err := c.Send(t.Context(), a)
			if err == nil && m.Count(outcome.Evidence.ID) != 1 {
				err = errors.New("not exactly one mail")
			}
			results <- err
		}()
	}
	for range mails {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}
