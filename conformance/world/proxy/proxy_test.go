package proxy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/pawlworks/pawl/conformance/world/mailbox"
	"github.com/pawlworks/pawl/conformance/world/proxy"
)

const text = "From: a@example.test\r\nTo: b@example.test\r\nSubject: hello\r\nMessage-ID: <1@example.test>\r\n\r\nbody\r\n"

func start(t *testing.T, decide proxy.Decide) (*mailbox.Mailbox, *proxy.Proxy) {
	t.Helper()
	box, err := mailbox.Start(mailbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = box.Close() })
	p, err := proxy.Start("127.0.0.1:0", box.SMTPAddr(), decide)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return box, p
}

func send(t *testing.T, address string, tlsConfig *tls.Config) error {
	t.Helper()
	var client *smtp.Client
	var err error
	if tlsConfig != nil {
		client, err = smtp.DialStartTLS(address, tlsConfig)
	} else {
		client, err = smtp.Dial(address)
	}
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.SendMail("a@example.test", []string{"b@example.test"}, strings.NewReader(text)); err != nil {
		return err
	}
	return client.Quit()
}

func TestSwallowingTheFinalReplyLeavesAnAcceptedMailAndAClientWithAnError(t *testing.T) {
	box, p := start(t, proxy.SwallowFinalReply())
	if err := send(t, p.Addr(), nil); err == nil {
		t.Fatal("the client heard of the acceptance")
	}
	if n := box.Count("1@example.test"); n != 1 {
		t.Fatalf("the mailbox accepted %d mails, want 1", n)
	}
	if p.Cuts() != 1 {
		t.Fatalf("%d cuts, want 1", p.Cuts())
	}
}

func TestCuttingBeforeTheDotAcceptsNothing(t *testing.T) {
	for _, point := range []proxy.Point{proxy.Hello, proxy.Mail, proxy.Recipient, proxy.Data, proxy.Dot} {
		t.Run(string(point), func(t *testing.T) {
			box, p := start(t, proxy.CutOn(point, false))
			if err := send(t, p.Addr(), nil); err == nil {
				t.Fatal("no error")
			}
			if err := box.Close(); err != nil { // waits for the server's side
				t.Fatal(err)
			}
			if n := len(box.Deliveries()); n != 0 {
				t.Fatalf("the mailbox accepted %d mails, want none", n)
			}
		})
	}
}

func TestAfterSTARTTLSTheProxyPassesBytesOn(t *testing.T) {
	box, p := start(t, proxy.SwallowFinalReply())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(box.AuthorityPEM())
	if err := send(t, p.Addr(), &tls.Config{RootCAs: roots, ServerName: "localhost"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := box.AwaitPhase(ctx, mailbox.PhaseAccepted); err != nil {
		t.Fatal(err)
	}
}
