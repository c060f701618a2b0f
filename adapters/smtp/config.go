package smtp

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/pawlworks/pawl/core/channel"
)

// TLS says how a connection is protected.
type TLS string

const (
	StartTLS    TLS = "starttls" // begin in the clear, then switch; refused if the server does not offer it
	ImplicitTLS TLS = "implicit" // TLS from the first byte
	NoTLS       TLS = "none"     // in the clear
)

// Defaults of [Config].
const (
	DefaultConnectTimeout = 30 * time.Second
	DefaultCommandTimeout = 5 * time.Minute  // RFC 5321 section 4.5.3.2
	DefaultReplyTimeout   = 12 * time.Minute // of the reply to the final dot: RFC 5321 says 10 minutes; too short a wait makes doubt
	// DefaultServerSessionTimeout is what RFC 5321 section 4.5.3.2.7 asks of servers, and what most of them do.
	DefaultServerSessionTimeout = 5 * time.Minute
	DefaultIMAPTimeout          = time.Minute
	DefaultMaxInFlight          = 8
	DefaultMailbox              = "INBOX"
)

// Server is where and how to connect.
type Server struct {
	Host          string `json:"host"`
	Port          int    `json:"port"`            // 0: by TLS, 587, 465 or 25 (993 or 143 for IMAP)
	TLS           TLS    `json:"tls"`             // empty: starttls (implicit for IMAP)
	TLSServerName string `json:"tls_server_name"` // empty: Host
	TLSCAFile     string `json:"tls_ca_file"`     // PEM; empty: the system's authorities
	Username      string `json:"username"`        // empty: no authentication
	// AllowPlaintextPassword permits a password on a connection without TLS.
	AllowPlaintextPassword bool `json:"allow_plaintext_password"`
	passwordKeys
	OAuth2  *OAuth2 `json:"oauth2"` // access tokens instead of a password
	account account
	tls     *tls.Config
}

type passwordKeys struct {
	Password     string `json:"password"`
	PasswordFile string `json:"password_file"`
	PasswordEnv  string `json:"password_env"`
}

// Config is the configuration of one channel.
type Config struct {
	Server
	From string `json:"from"` // the author's address, with or without a name
	// Senders are further addresses that a payload may name as its from.
	Senders []string `json:"senders"`
	// ReturnPath is the address that bounces go to. Empty: the author's.
	ReturnPath string `json:"return_path"`
	// Domain is the right side of every Message-ID and the name in EHLO. Empty: that of From.
	Domain string `json:"domain"`
	// Headers are names of further header fields that a payload may set.
	Headers        []string         `json:"headers"`
	ConnectTimeout channel.Duration `json:"connect_timeout"`
	CommandTimeout channel.Duration `json:"command_timeout"`
	ReplyTimeout   channel.Duration `json:"reply_timeout"`
	// ServerSessionTimeout is how long the server waits for a client before it ends a session, its own checks after the
	// final dot included: how long after our death it may still take a mail. It is the channel's settle time.
	ServerSessionTimeout channel.Duration `json:"server_session_timeout"`
	MaxInFlight          int              `json:"max_in_flight"`
	IMAP                 *IMAP            `json:"imap"` // nil: no probe

	from       address
	senders    []address
	returnPath address
}

// IMAP is the mailbox that a probe looks into.
type IMAP struct {
	Server
	Mailbox string `json:"mailbox"` // empty: INBOX
	// StoredBeforeReply states that the mail server itself puts every mail of this channel into this mailbox before it
	// answers 250, and that nothing removes it there. Only then is an absence proof. A mailbox that mail reaches through a
	// queue (a journal by always_bcc, a recipient's mailbox) is not such a mailbox.
	StoredBeforeReply bool `json:"stored_before_reply"`
	// KeptFor is how long mail stays in the mailbox. 0: for ever.
	KeptFor channel.Duration `json:"kept_for"`
	Timeout channel.Duration `json:"timeout"` // of one probe
}

func parseConfig(raw json.RawMessage) (*Config, error) {
	c := new(Config)
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(c); err != nil {
		return nil, fmt.Errorf("smtp: configuration: %w", err)
	}
	if err := c.prepare(); err != nil {
		return nil, fmt.Errorf("smtp: configuration: %w", err)
	}
	return c, nil
}

// prepare sets the defaults, checks everything and reads what the configuration points to. It reports all faults.
func (c *Config) prepare() error {
	var faults []error
	fault := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	fault(c.Server.prepare("", StartTLS, map[TLS]int{StartTLS: 587, ImplicitTLS: 465, NoTLS: 25}))
	fault(c.prepareAddresses())
	for _, d := range []struct {
		key     string
		value   *channel.Duration
		missing time.Duration
	}{
		{"connect_timeout", &c.ConnectTimeout, DefaultConnectTimeout},
		{"command_timeout", &c.CommandTimeout, DefaultCommandTimeout},
		{"reply_timeout", &c.ReplyTimeout, DefaultReplyTimeout},
		{"server_session_timeout", &c.ServerSessionTimeout, DefaultServerSessionTimeout},
	} {
		fault(duration(d.key, d.value, d.missing))
	}
	if c.MaxInFlight < 0 {
		fault(fmt.Errorf("max_in_flight is %d: use a positive number, or leave it out for %d", c.MaxInFlight, DefaultMaxInFlight))
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = DefaultMaxInFlight
	}
	for _, name := range c.Headers {
		fault(checkAllowedHeader(name))
	}
	if c.IMAP != nil {
		fault(c.IMAP.prepare())
		if c.OAuth2 != nil && c.IMAP.OAuth2 != nil && *c.OAuth2 == *c.IMAP.OAuth2 {
			c.IMAP.account.tokens = c.account.tokens // one grant, one token
		}
	}
	return errors.Join(faults...)
}

func (c *Config) prepareAddresses() error {
	var err error
	if c.from, err = parseAddress(c.From); err != nil {
		return fmt.Errorf("from: %w", err)
	}
	c.senders = []address{c.from}
	for i, s := range c.Senders {
		sender, err := parseAddress(s)
		if err != nil {
			return fmt.Errorf("senders[%d]: %w", i, err)
		}
		c.senders = append(c.senders, sender)
	}
	if c.ReturnPath != "" {
		if c.returnPath, err = parseAddress(c.ReturnPath); err != nil {
			return fmt.Errorf("return_path: %w", err)
		}
	}
	if c.Domain == "" {
		c.Domain = c.from.domain
	}
	if c.Domain, err = asciiDomain(c.Domain); err != nil {
		return fmt.Errorf("domain: %w", err)
	}
	return nil
}

func (i *IMAP) prepare() error {
	if i.Mailbox == "" {
		i.Mailbox = DefaultMailbox
	}
	faults := []error{
		i.Server.prepare("imap.", ImplicitTLS, map[TLS]int{ImplicitTLS: 993, StartTLS: 143, NoTLS: 143}),
		duration("imap.timeout", &i.Timeout, DefaultIMAPTimeout),
	}
	if i.KeptFor < 0 {
		faults = append(faults, errors.New("imap.kept_for is negative: use a positive duration, or leave it out"))
	}
	if i.Username == "" {
		faults = append(faults, errors.New("imap.username is missing: name the account whose mailbox is searched"))
	}
	return errors.Join(faults...)
}

func duration(key string, d *channel.Duration, missing time.Duration) error {
	if *d < 0 {
		return fmt.Errorf("%s is negative: use a duration such as %v", key, missing)
	}
	if *d == 0 {
		*d = channel.Duration(missing)
	}
	return nil
}

func (s *Server) prepare(prefix string, missing TLS, ports map[TLS]int) error {
	var faults []error
	if s.Host == "" {
		faults = append(faults, fmt.Errorf("%shost is missing: name the server", prefix))
	}
	if s.TLS == "" {
		s.TLS = missing
	}
	port, known := ports[s.TLS]
	if !known {
		faults = append(faults, fmt.Errorf("%stls is %q: use starttls, implicit or none", prefix, s.TLS))
	}
	if s.Port == 0 {
		s.Port = port
	}
	if s.Port < 0 || s.Port > 65535 {
		faults = append(faults, fmt.Errorf("%sport is %d: use 1 to 65535", prefix, s.Port))
	}
	faults = append(faults, s.prepareAccount(prefix))
	if s.TLS != NoTLS {
		config, err := s.tlsConfig(prefix)
		faults = append(faults, err)
		s.tls = config
	}
	return errors.Join(faults...)
}

// prepareAccount checks who logs in, and how that is shown.
func (s *Server) prepareAccount(prefix string) error {
	secret := password{Value: s.Password, File: s.PasswordFile, Env: s.PasswordEnv}
	s.Password = ""
	if err := secret.validate(prefix); err != nil {
		return err
	}
	switch {
	case s.Username == "" && (secret.given() > 0 || s.OAuth2 != nil):
		return fmt.Errorf("%susername is missing although a password or oauth2 is given", prefix)
	case s.Username == "":
		return nil
	case secret.given() > 0 && s.OAuth2 != nil:
		return fmt.Errorf("%soauth2 and a password exclude each other: keep one", prefix)
	case secret.given() == 0 && s.OAuth2 == nil:
		return fmt.Errorf("%spassword is missing: give one of password, password_file, password_env and oauth2", prefix)
	case s.TLS == NoTLS && !s.AllowPlaintextPassword:
		return fmt.Errorf("%stls is none and a password or token is given: use TLS, or set %sallow_plaintext_password", prefix, prefix)
	case s.OAuth2 != nil:
		s.account = account{username: s.Username, tokens: newTokens(*s.OAuth2, prefix)}
		return s.OAuth2.validate(prefix)
	}
	text, err := secret.read(prefix)
	s.account = account{username: s.Username, password: text}
	return err
}

func (s *Server) tlsConfig(prefix string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.TLSServerName}
	if config.ServerName == "" {
		config.ServerName = s.Host
	}
	if s.TLSCAFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(s.TLSCAFile)
	if err != nil {
		return nil, fmt.Errorf("%stls_ca_file: %w", prefix, err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%stls_ca_file %s has no certificate: give a PEM file", prefix, s.TLSCAFile)
	}
	return config, nil
}

func (s *Server) address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }
