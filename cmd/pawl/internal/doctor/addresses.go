package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/ledger"
)

const (
	aboutAPI     = "API"
	aboutMailbox = "mailbox"
	// soon is how long before its end a certificate is worth a warning.
	soon     = 14 * 24 * time.Hour
	askLimit = 2 * time.Second
)

// exposure looks at who can reach the API, and whether it can tell them apart.
func (d *doctor) exposure(ctx context.Context, l ledger.Ledger) {
	if config.Loopback(d.Config.API.Listen) {
		return
	}
	tokens, err := l.APITokens(ctx)
	now, clock := l.Now(ctx)
	if err := errors.Join(err, clock); err != nil {
		d.fault(aboutAPI, "mend the ledger first", "its tokens cannot be read: %v", err)
		return
	}
	for _, t := range tokens {
		if t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt)) {
			return
		}
	}
	d.fault(aboutAPI, "pawl tokens create NAME --scope admin", "others can reach %s, and there is no good token: pawl serve refuses to start", d.Config.API.Listen)
}

func (d *doctor) addresses(ctx context.Context) {
	listen, t := d.Config.API.Listen, d.Config.API.TLS
	switch {
	case t.On():
		d.certificate(t)
	case config.Loopback(listen):
		d.ok(aboutAPI, "only this machine can reach %s", listen)
	case d.Config.API.PlainText:
		d.warn(aboutAPI, "see that nothing but what ends TLS can reach it", "%s speaks plain text, as configured", listen)
	default:
		d.fault(aboutAPI, "name api.tls.cert and api.tls.key; or set api.plain_text if something in front of it ends TLS", "others can reach %s without TLS: tokens would cross the network in the clear", listen)
	}
	serves := false // a service of ours runs here with this configuration's address
	for _, a := range []struct{ about, address string }{
		{aboutAPI, listen}, {"metrics", d.Config.Metrics.Listen}, {aboutMailbox, d.Config.Mailbox.SMTP}, {aboutMailbox, d.Config.Mailbox.IMAP},
	} {
		if a.address != "" {
			serves = d.free(ctx, a.about, a.address, serves) || serves
		}
	}
}

func (d *doctor) certificate(t config.TLS) {
	const do = "make another certificate, and name its files"
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		d.fault(aboutAPI, do, "its certificate cannot be used: %v", err)
		return
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		d.fault(aboutAPI, do, "its certificate cannot be read: %v", err)
		return
	}
	switch left := leaf.NotAfter.Sub(d.Now()); {
	case left <= 0:
		d.fault(aboutAPI, do, "its certificate has ended at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	case left < soon:
		d.warn(aboutAPI, do, "its certificate ends at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	default:
		d.ok(aboutAPI, "its certificate is good until %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if info, err := os.Stat(t.Key); err == nil && info.Mode().Perm()&0o007 != 0 {
		d.fault(aboutAPI, "chmod 600 "+t.Key, "every user of this machine can read the key of its certificate (mode %#o)", info.Mode().Perm())
	}
}

// free tries an address, and reports whether a service of ours answers there. One that runs has its mailbox's addresses, too.
func (d *doctor) free(ctx context.Context, about, address string, serves bool) bool {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		_ = l.Close()
		d.ok(about, "%s is free", address)
	case errors.Is(err, syscall.EADDRINUSE) && about == aboutMailbox && serves:
		d.ok(about, "%s is the running service's", address)
	case errors.Is(err, syscall.EADDRINUSE) && answers(ctx, address, about == aboutAPI && d.Config.API.TLS.On()):
		d.ok(about, "a service answers on %s already", address)
		return true
	case errors.Is(err, syscall.EADDRINUSE):
		d.fault(about, "stop what has it (ss -ltnp shows it), or choose another port", "another program has %s", address)
	default:
		d.fault(about, "choose an address of this machine", "%s cannot be listened on: %v", address, err)
	}
	return false
}

// answers reports whether a pawl serves there: it has a page for its health.
func answers(ctx context.Context, address string, encrypted bool) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http://"
	if encrypted {
		scheme = "https://"
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return false
	}
	// Nothing is sent that others may not see, and the certificate need not name this address.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
