package mailpeer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/pawlworks/pawl/conformance/world/mailpeer"
)

func TestAMailReachesItsMailboxAndTheJournal(t *testing.T) {
	peer := mailpeer.StartForTest(t)
	client, err := smtp.Dial(peer.SMTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	text := "From: a@example.test\r\nTo: b@example.test\r\nSubject: s\r\nMessage-ID: <1@example.test>\r\n\r\nbody\r\n"
	if err := client.SendMail("a@example.test", []string{"b@example.test"}, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := peer.AwaitDelivered(ctx); err != nil {
		t.Fatal(err)
	}
	for _, account := range []string{"b@example.test", mailpeer.Journal} {
		if n, err := peer.Count(account); err != nil || n != 1 {
			t.Errorf("%s has %d mails (%v), want 1", account, n, err)
		}
	}
}
