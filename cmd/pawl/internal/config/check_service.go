package config

import (
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"strconv"

	"github.com/pawlworks/pawl/fence"
)

const (
	minBody = 1 << 10
	maxBody = 64 << 20
)

func (d *decoder) checkService(c Config) {
	d.address([]string{"api", "listen"}, c.API.Listen)
	d.address([]string{"metrics", "listen"}, c.Metrics.Listen)
	if sameAddress(c.Metrics.Listen, c.API.Listen) {
		d.fault([]string{"metrics", "listen"}, "is the address of the API; choose another port, or leave it out: the API has /metrics, too")
	}
	switch {
	case c.API.TLS.Cert != "" && c.API.TLS.Key == "":
		d.fault([]string{"api", "tls", "key"}, "is missing beside cert: name the file of the private key")
	case c.API.TLS.Key != "" && c.API.TLS.Cert == "":
		d.fault([]string{"api", "tls", "cert"}, "is missing beside key: name the file of the certificate")
	}
	if n := c.API.MaxBody; n != 0 && (n < minBody || n > maxBody) {
		d.fault([]string{"api", "max_body"}, "must be from %d to %d bytes, is %d", minBody, maxBody, n)
	}
	d.checkTracing(c.Tracing)
	d.checkLeases(c.Ledger.Leases)
	d.checkMailbox(c.Mailbox)
}

// sameAddress reports whether two programs could not listen on both: the port is the same, and the host, or one of them takes all.
func sameAddress(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	all := func(host string) bool { ip := net.ParseIP(host); return host == "" || ip != nil && ip.IsUnspecified() }
	return hostA == hostB || all(hostA) || all(hostB)
}

// address checks host:port. Port 0 is any free one.
func (d *decoder) address(path []string, value string) {
	if value == "" {
		return
	}
	_, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		d.fault(path, "is no address; use host:port, such as %s", DefaultListen)
	}
}

func (d *decoder) checkTracing(t Tracing) {
	if t.Endpoint != "" {
		u, err := url.Parse(t.Endpoint)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			d.fault([]string{"tracing", "endpoint"}, "is no URL of a collector; use http(s)://host:port, such as http://127.0.0.1:4318")
		case u.User != nil:
			d.fault([]string{"tracing", "endpoint"}, "holds a user or a password; put them into tracing.headers")
		}
	}
	if !(t.Ratio >= 0 && t.Ratio <= 1) { // so that .nan is refused, too
		d.fault([]string{"tracing", "ratio"}, "must be from 0 to 1, is %g", t.Ratio)
	}
	if len(t.Headers) > 0 {
		var all map[string]string
		if json.Unmarshal(t.Headers.Reveal(), &all) != nil { // the cause may quote a value
			d.fault([]string{"tracing", "headers"}, "must be a mapping of names to text; put the values in quotes")
		}
	}
	if t.Endpoint == "" && (t.Ratio != 0 || len(t.Headers) > 0) {
		d.fault([]string{"tracing", "endpoint"}, "is missing: without it no trace is sent")
	}
}

func (d *decoder) checkLeases(l Leases) {
	at := func(key string) []string { return []string{"ledger", "leases", key} }
	if l.Table == "" {
		if l.RunID+l.Owner+l.Number+l.ExpiresAt+l.Status != "" || len(l.Live) > 0 {
			d.fault(at("table"), "is missing: name the table that the columns belong to")
		}
		return
	}
	_, err := l.Fence().Normal()
	for _, fault := range split(err) {
		var wrong *fence.TableError
		if !errors.As(fault, &wrong) {
			d.fault(at("table"), "%s", fault)
			continue
		}
		key := wrong.Field
		if key == "name" || key == "schema" {
			key = "table"
		}
		d.fault(at(key), "%s", wrong.Reason)
	}
}

// split returns the errors that were joined.
func split(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // what was joined, not what is wrapped
		return joined.Unwrap()
	}
	return []error{err}
}

func (d *decoder) checkMailbox(m Mailbox) {
	for _, a := range []struct{ key, value, other string }{{"smtp", m.SMTP, m.IMAP}, {"imap", m.IMAP, m.SMTP}} {
		path := []string{"mailbox", a.key}
		d.address(path, a.value)
		switch {
		case a.value == "" && a.other != "":
			d.fault(path, "is missing: the mailbox needs both smtp and imap, each host:port on loopback")
		case a.value != "" && !Loopback(a.value):
			d.fault(path, "must be on loopback, such as 127.0.0.1:7241: it is for trying out, and its password is known to everybody")
		}
	}
	if m.SMTP == "" && m.IMAP == "" && m.SessionTimeout != 0 {
		d.fault([]string{"mailbox", "smtp"}, "is missing: without it there is no mailbox")
	}
}
