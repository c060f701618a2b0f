package config

import (
	"cmp"
	"net"
	"net/netip"
	"time"
)

// Defaults of a service.
const (
	DefaultListen = "127.0.0.1:7240"
	// DefaultDrain is how long a service that stops is still reached before it takes no new connection, where others may have its
	// address.
	DefaultDrain          = 5 * time.Second
	DefaultMailboxSession = 10 * time.Second
)

// API says where and how the HTTP API of pawl serve is offered.
type API struct {
	Listen string `yaml:"listen"` // host:port
	TLS    TLS    `yaml:"tls"`
	// PlainText allows an address that others can reach without TLS: something in front of it ends TLS.
	PlainText         bool `yaml:"plain_text"`
	RequestsPerMinute int  `yaml:"requests_per_minute"` // of one token, or of one address without token; 0: the API's default
	MaxBody           int  `yaml:"max_body"`            // bytes; 0: the API's default
	// Drain is how long, after the first signal, new connections are still taken; 0: DefaultDrain, or none on loopback.
	Drain time.Duration `yaml:"drain"`
}

// TLS names the files of a certificate. They are read again when they change.
type TLS struct {
	Cert string `yaml:"cert"` // PEM, with the chain
	Key  string `yaml:"key"`  // PEM
}

// On reports whether there is a certificate.
func (t TLS) On() bool { return t.Cert != "" }

// Metrics offers metrics and health on an address of their own, without TLS and without tokens.
type Metrics struct {
	Listen string `yaml:"listen"` // host:port; empty: only on the API's
}

// Tracing says where traces are sent.
type Tracing struct {
	Endpoint string `yaml:"endpoint"` // URL of an OTLP/HTTP collector; empty: no traces
	// Ratio of the traces that begin here, from 0 to 1. A caller's own decision counts before it. 0: 1.
	Ratio float64 `yaml:"ratio"`
	// Headers are sent along, as JSON: {"name": "value"}. They may hold secrets.
	Headers Secret `yaml:"headers"`
}

// Leases maps a table of somebody else that holds the leases of runs. Empty: the ledger's own.
type Leases struct {
	Table     string   `yaml:"table"`
	RunID     string   `yaml:"run_id"` // and below: names of columns
	Owner     string   `yaml:"owner"`
	Number    string   `yaml:"number"`
	ExpiresAt string   `yaml:"expires_at"`
	Status    string   `yaml:"status"`
	Live      []string `yaml:"live"` // values of the status under which a lease counts
}

// Mailbox is a mail server inside this process, for trying out: what it takes goes nowhere.
type Mailbox struct {
	SMTP string `yaml:"smtp"` // host:port on loopback; empty: no mailbox
	IMAP string `yaml:"imap"`
	// SessionTimeout is how long it waits for a silent client: the channel's server_session_timeout. 0: DefaultMailboxSession.
	SessionTimeout time.Duration `yaml:"session_timeout"`
}

// On reports whether there is a mailbox.
func (m Mailbox) On() bool { return m.SMTP != "" }

func (c *Config) setServiceDefaults(dir string) {
	c.API.Listen = cmp.Or(c.API.Listen, DefaultListen)
	if c.API.TLS.Cert != "" {
		c.API.TLS.Cert = from(dir, c.API.TLS.Cert)
	}
	if c.API.TLS.Key != "" {
		c.API.TLS.Key = from(dir, c.API.TLS.Key)
	}
	if c.API.Drain == 0 && !Loopback(c.API.Listen) {
		c.API.Drain = DefaultDrain
	}
	if c.Tracing.Ratio == 0 {
		c.Tracing.Ratio = 1
	}
	c.Mailbox.SessionTimeout = cmp.Or(c.Mailbox.SessionTimeout, DefaultMailboxSession)
}

// Loopback reports whether only this host can reach the address host:port.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
