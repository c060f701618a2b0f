package smtp_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlworks/pawl/conformance/world/mailpeer"
	"github.com/pawlworks/pawl/conformance/world/proxy"
	"github.com/pawlworks/pawl/core/channel"
)

// peerConfig configures a channel for the real servers, with the journal as the mailbox to look into.
func peerConfig(t *testing.T, peer *mailpeer.Peer, smtpAddress string, changes map[string]any) json.RawMessage {
	t.Helper()
	authority := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(authority, peer.AuthorityPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	host, port := hostPort(t, smtpAddress)
	imapHost, imapPort := hostPort(t, peer.IMAPAddr())
	config := map[string]any{
		"host": host, "port": port, "tls": "starttls", "tls_ca_file": authority, "from": "Shop <shop@example.test>",
		"username": mailpeer.Journal, "password": mailpeer.Password, "allow_plaintext_password": true,
		"reply_timeout": "20s", "command_timeout": "20s",
		"imap": map[string]any{
			"host": imapHost, "port": imapPort, "tls": "starttls", "tls_ca_file": authority,
			"username": mailpeer.Journal, "password": mailpeer.Password, "timeout": "20s",
		},
	}
	for key, value := range changes {
		config[key] = value
	}
	b, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// count is how many mails are in the recipient's mailbox, once everything was delivered.
func count(t *testing.T, peer *mailpeer.Peer, account string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := peer.AwaitDelivered(ctx); err != nil {
		t.Fatal(err)
	}
	n, err := peer.Count(account)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWithPostfixAndDovecot(t *testing.T) {
	peer := mailpeer.StartForTest(t)
	mailTo := func(account string) string {
		return `{"to":"` + account + `","subject":"grüße","text":"first\n.second\n","html":"<p>first</p>",
			"attachments":[{"name":"übersicht.pdf","content_type":"application/pdf","content":"aGVsbG8="}]}`
	}

	t.Run("a mail that was sent is found in the journal", func(t *testing.T) {
		c := open(t, peerConfig(t, peer, peer.SMTPAddr(), nil))
		a := attemptOf(t, c, intentOf("one", mailTo("ann@example.test")))
		outcome, err := c.Send(t.Context(), a)
		if class(outcome, err) != "delivered" {
			t.Fatal(err)
		}
		if n := count(t, peer, "ann@example.test"); n != 1 {
			t.Fatalf("%d mails, want 1", n)
		}
		if finding := wantFinding(t, c, a, channel.FindingSent); finding.Evidence.ID != outcome.Evidence.ID || finding.Match != channel.MatchExact {
			t.Fatalf("found %+v, sent %+v", finding.Evidence, outcome.Evidence)
		}
		// A journal is filled from the queue: an absence there is no proof, with a control that passes.
		absent := wantFinding(t, c, attemptOf(t, c, intentOf("never sent", mailTo("ann@example.test"))), channel.FindingAbsentNow)
		if !absent.Control {
			t.Fatal("the control did not pass")
		}
	})

	t.Run("a swallowed reply leaves one mail, doubt, and a probe that ends it", func(t *testing.T) {
		gap, err := proxy.Start("127.0.0.1:0", peer.SMTPAddr(), proxy.SwallowFinalReply())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = gap.Close() })
		c := open(t, peerConfig(t, peer, gap.Addr(), map[string]any{"tls": "none"}))
		a := attemptOf(t, c, intentOf("two", mailTo("bob@example.test")))
		outcome, err := c.Send(t.Context(), a)
		if got := class(outcome, err); got != "ambiguous" {
			t.Fatalf("Send means %q (%v)", got, err)
		}
		if n := count(t, peer, "bob@example.test"); n != 1 {
			t.Fatalf("%d mails, want 1", n)
		}
		if finding := wantFinding(t, c, a, channel.FindingSent); finding.Match != channel.MatchExact {
			t.Fatal("the match is not exact")
		}
	})

	t.Run("a cut before the dot leaves no mail and no doubt", func(t *testing.T) {
		gap, err := proxy.Start("127.0.0.1:0", peer.SMTPAddr(), proxy.CutOn(proxy.Data, true))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = gap.Close() })
		c := open(t, peerConfig(t, peer, gap.Addr(), map[string]any{"tls": "none"}))
		outcome, err := c.Send(t.Context(), attemptOf(t, c, intentOf("three", mailTo("carol@example.test"))))
		if got := class(outcome, err); got != "not sent" {
			t.Fatalf("Send means %q (%v)", got, err)
		}
		if n := count(t, peer, "carol@example.test"); n != 0 {
			t.Fatalf("%d mails, want none", n)
		}
	})

	t.Run("a refused Begin leaves no mail", func(t *testing.T) {
		c := open(t, peerConfig(t, peer, peer.SMTPAddr(), nil))
		a := attemptOf(t, c, intentOf("four", mailTo("dave@example.test")))
		a.BeginFunc = func() error { return channel.ErrNoBegin }
		if outcome, err := c.Send(t.Context(), a); class(outcome, err) != "not sent" {
			t.Fatal(err)
		}
		if n := count(t, peer, "dave@example.test"); n != 0 {
			t.Fatalf("%d mails, want none", n)
		}
	})

	t.Run("refusals", func(t *testing.T) {
		c := open(t, peerConfig(t, peer, peer.SMTPAddr(), nil))
		for account, want := range map[string]string{mailpeer.RefusedNow: "not sent", mailpeer.RefusedForGood: "rejected"} {
			outcome, err := c.Send(t.Context(), attemptOf(t, c, intentOf(account, mailTo(account))))
			if got := class(outcome, err); got != want {
				t.Errorf("%s: %q (%v), want %q", account, got, err, want)
			}
		}
		wrong := open(t, peerConfig(t, peer, peer.SMTPAddr(), map[string]any{"password": "pass-word-2"}))
		if outcome, err := wrong.Send(t.Context(), attemptOf(t, wrong, intentOf("five", mailTo("ann@example.test")))); class(outcome, err) != "configuration" {
			t.Errorf("a wrong password: %v", err)
		}
	})

	t.Run("an address beyond ASCII", func(t *testing.T) {
		c := open(t, peerConfig(t, peer, peer.SMTPAddr(), nil))
		a := attemptOf(t, c, intentOf("six", mailTo("jörg@example.test")))
		if outcome, err := c.Send(t.Context(), a); class(outcome, err) != "delivered" {
			t.Fatal(err)
		}
	})
}
