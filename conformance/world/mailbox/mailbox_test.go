package mailbox_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/pawlworks/pawl/conformance/world/mailbox"
)

const text = "From: a@example.test\r\nTo: b@example.test\r\nSubject: =?utf-8?q?gr=C3=BC=C3=9Fe?=\r\n" +
	"Message-ID: <1@example.test>\r\nContent-Transfer-Encoding: base64\r\n\r\nbWFya2VyLTE=\r\n"

func start(t *testing.T, options mailbox.Options) *mailbox.Mailbox {
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

func trust(m *mailbox.Mailbox) *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(m.AuthorityPEM())
	return &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}
}

func send(address string) error {
	client, err := smtp.Dial(address)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.SendMail("a@example.test", []string{"b@example.test"}, strings.NewReader(text))
}

// search asks over IMAP for a Message-ID.
func search(t *testing.T, client *imapclient.Client, id string) int {
	t.Helper()
	defer client.Close()
	if err := client.Login(mailbox.DefaultUser, mailbox.DefaultPassword).Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Select(mailbox.Inbox, nil).Wait(); err != nil {
		t.Fatal(err)
	}
	data, err := client.UIDSearch(&imap.SearchCriteria{Header: []imap.SearchCriteriaHeaderField{{Key: "Message-ID", Value: id}}}, nil).Wait()
	if err != nil {
		t.Fatal(err)
	}
	return len(data.AllUIDs())
}

func TestEveryAcceptedMailCountsAlsoTheSameOneTwice(t *testing.T) {
	m := start(t, mailbox.Options{})
	for range 2 {
		if err := send(m.SMTPAddr()); err != nil {
			t.Fatal(err)
		}
	}
	if got := []int{m.Count("<1@example.test>"), m.CountContaining("marker-1"), m.CountContaining("grüße"), m.CountContaining("other")}; got[0] != 2 || got[1] != 2 || got[2] != 2 || got[3] != 0 {
		t.Fatalf("counts by id, body, subject and foreign marker are %v, want 2 2 2 0", got)
	}
	client, err := imapclient.DialTLS(m.IMAPSAddr(), &imapclient.Options{TLSConfig: trust(m)})
	if err != nil {
		t.Fatal(err)
	}
	if n := search(t, client, "<1@example.test>"); n != 2 {
		t.Fatalf("IMAP shows %d, want 2", n)
	}
}

func TestARestartedMailboxStillCountsAndShows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accepted")
	first := start(t, mailbox.Options{StorePath: path})
	if err := send(first.SMTPAddr()); err != nil {
		t.Fatal(err)
	}
	address := first.SMTPAddr()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	// The process died while it was writing a further row.
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"seq":2,"message_id":"torn`); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	second := start(t, mailbox.Options{StorePath: path, SMTPAddr: address})
	if err := send(second.SMTPAddr()); err != nil {
		t.Fatal(err)
	}
	rows := second.Deliveries()
	if len(rows) != 2 || rows[1].Seq != 2 || second.Count("1@example.test") != 2 {
		t.Fatalf("%d rows after the restart, want 2", len(rows))
	}
	client, err := imapclient.DialStartTLS(second.IMAPAddr(), &imapclient.Options{TLSConfig: trust(second)})
	if err != nil {
		t.Fatal(err)
	}
	if n := search(t, client, "1@example.test"); n != 2 {
		t.Fatalf("IMAP shows %d, want 2", n)
	}
}

func TestFaultsEndADeliveryWhereTheySay(t *testing.T) {
	refuse := &mailbox.Reply{Code: 451, Text: "4.3.0 later"}
	for _, test := range []struct {
		name     string
		fault    mailbox.Fault
		accepted int
		code     int // 0: the connection is cut
	}{
		{"cut before the dot", mailbox.Fault{Phase: mailbox.PhaseBody, Cut: true}, 0, 0},
		{"cut after the dot", mailbox.Fault{Phase: mailbox.PhaseDot, Cut: true}, 0, 0},
		{"cut between acceptance and reply", mailbox.Fault{Phase: mailbox.PhaseAccepted, Cut: true}, 1, 0},
		{"refuse at connect", mailbox.Fault{Phase: mailbox.PhaseConnect, Refuse: refuse}, 0, 451},
		{"refuse at hello", mailbox.Fault{Phase: mailbox.PhaseHello, Refuse: refuse}, 0, 451},
		{"refuse at mail", mailbox.Fault{Phase: mailbox.PhaseMail, Refuse: refuse}, 0, 451},
		{"refuse the recipient", mailbox.Fault{Phase: mailbox.PhaseRecipient, Recipient: "b@example.test", Refuse: refuse}, 0, 451},
		{"refuse at the dot", mailbox.Fault{Phase: mailbox.PhaseDot, Refuse: refuse}, 0, 451},
		{"accept and lie", mailbox.Fault{Phase: mailbox.PhaseAccepted, Refuse: refuse}, 1, 451},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := start(t, mailbox.Options{})
			m.Inject(test.fault)
			err := send(m.SMTPAddr())
			var reply *smtp.SMTPError
			if test.code == 0 && (err == nil || errors.As(err, &reply)) {
				t.Fatalf("got %v, want a cut connection", err)
			}
			if test.code != 0 && (!errors.As(err, &reply) || reply.Code != test.code) {
				t.Fatalf("got %v, want %d", err, test.code)
			}
			if n := len(m.Deliveries()); n != test.accepted {
				t.Fatalf("%d accepted, want %d", n, test.accepted)
			}
			if err := send(m.SMTPAddr()); err != nil {
				t.Fatalf("the fault happened more than once: %v", err)
			}
		})
	}
}

func TestAHeldMailIsAcceptedAfterItsSenderIsGone(t *testing.T) {
	m := start(t, mailbox.Options{})
	release := make(chan struct{})
	m.Inject(mailbox.Fault{Phase: mailbox.PhaseDot, Hold: release})
	sent := make(chan error, 1)
	go func() { sent <- send(m.SMTPAddr()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := m.AwaitPhase(ctx, mailbox.PhaseDot); err != nil {
		t.Fatal(err)
	}
	if m.KillConnections() == 0 {
		t.Fatal("no connection was open")
	}
	if err := <-sent; err == nil {
		t.Fatal("the sender heard of the acceptance")
	}
	if n := len(m.Deliveries()); n != 0 {
		t.Fatalf("%d accepted while held, want none", n)
	}
	close(release)
	if _, err := m.AwaitPhase(ctx, mailbox.PhaseAccepted); err != nil {
		t.Fatal(err)
	}
	if n := m.Count("1@example.test"); n != 1 {
		t.Fatalf("%d accepted, want 1", n)
	}
}

func TestAuthenticationIsCheckedInBothWays(t *testing.T) {
	m := start(t, mailbox.Options{RequireAuth: true})
	for name, client := range map[string]func(user, password string) sasl.Client{
		"PLAIN": func(u, p string) sasl.Client { return sasl.NewPlainClient("", u, p) },
		"LOGIN": sasl.NewLoginClient,
	} {
		t.Run(name, func(t *testing.T) {
			for password, right := range map[string]bool{mailbox.DefaultPassword: true, "wrong": false} {
				c, err := smtp.DialTLS(m.SMTPSAddr(), trust(m))
				if err != nil {
					t.Fatal(err)
				}
				err = c.Auth(client(mailbox.DefaultUser, password))
				if (err == nil) != right {
					t.Errorf("password %q: %v", password, err)
				}
				err = c.Mail("a@example.test", nil)
				if (err == nil) != right {
					t.Errorf("MAIL after password %q: %v", password, err)
				}
				_ = c.Close()
			}
		})
	}
}
