package config

import (
	"encoding/json"
	"net"
	"net/url"
	"regexp"
	"strconv"
)

const (
	minBody = 1 << 10
	maxBody = 64 << 20
)

var (
	columnName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)
	tableName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)
)

func (d *decoder) checkService(c Config) {
	d.address([]string{"api", "listen"}, c.API.Listen)
	d.address([]string{"metrics", "listen"}, c.Metrics.Listen)
	if c.Metrics.Listen != "" && c.Metrics.Listen == c.API.Listen {
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
		d.fault(path, "%q is no address; use host:port, such as %s", value, DefaultListen)
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
	columns := []struct{ key, value string }{
		{"run_id", l.RunID}, {"owner", l.Owner}, {"number", l.Number}, {"expires_at", l.ExpiresAt}, {"status", l.Status},
	}
	named := len(l.Live) > 0
	for _, c := range columns {
		named = named || c.value != ""
		if c.value != "" && !columnName.MatchString(c.value) {
			d.fault(at(c.key), "%q is no column name; use letters, digits and _", c.value)
		}
	}
	switch {
	case l.Table == "" && named:
		d.fault(at("table"), "is missing: name the table that the columns belong to")
	case l.Table != "" && !tableName.MatchString(l.Table):
		d.fault(at("table"), "%q is no table name; use table or schema.table", l.Table)
	case l.Status != "" && len(l.Live) == 0:
		d.fault(at("live"), "is missing beside status: list the values under which a lease counts")
	case l.Status == "" && len(l.Live) > 0:
		d.fault(at("status"), "is missing beside live: name the column")
	}
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
