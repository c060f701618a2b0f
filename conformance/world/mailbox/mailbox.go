package mailbox

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-smtp"

	"github.com/pawlworks/pawl/conformance/world"
)

const (
	// loopback picks a free port on the loopback interface.
	loopback = "127.0.0.1:0"
	// DefaultUser and DefaultPassword are the account that exists if no other was given.
	DefaultUser, DefaultPassword = "pawl", "secret"
	// DefaultDomain is what the server calls itself.
	DefaultDomain = "mail.example.test"
	// DefaultSessionTimeout is how long the server waits for a silent client.
	DefaultSessionTimeout = 5 * time.Minute
	// maxMessage bounds one accepted mail, in bytes.
	maxMessage = 64 << 20
)

// User is an account: it may authenticate over SMTP and IMAP, and has an INBOX.
type User struct {
	Name, Password string
	// Addresses are the recipients whose mail goes to this INBOX.
	Addresses []string
}

// Options says what to start. The zero value is a mailbox on free loopback ports with one catch-all account.
type Options struct {
	// The addresses to listen on: SMTP with STARTTLS, SMTP inside TLS, IMAP with STARTTLS, IMAP inside TLS. Empty: a free
	// loopback port. A mailbox that is started again takes the addresses of the one before.
	SMTPAddr, SMTPSAddr, IMAPAddr, IMAPSAddr string
	// Users are the accounts. Mail for an address that belongs to nobody goes to the first one.
	Users []User
	// TLS replaces the certificate made on the spot; AuthorityPEM then returns nothing.
	TLS *tls.Config
	// AcceptToken tells whether an access token is good for a user, in XOAUTH2 and OAUTHBEARER. nil: neither is offered.
	AcceptToken func(username, token string) bool
	// OnlyOAuthBearer offers nothing but OAUTHBEARER over SMTP, and no XOAUTH2 over IMAP.
	OnlyOAuthBearer bool
	// RequireAuth refuses MAIL before AUTH.
	RequireAuth bool
	// WithoutSMTPUTF8 stops offering the SMTPUTF8 extension.
	WithoutSMTPUTF8 bool
	// StorePath is an append-only file that keeps what was accepted. Empty: memory only.
	StorePath string
	// SessionTimeout is how long the server waits for a silent client. 0: DefaultSessionTimeout.
	SessionTimeout time.Duration
	// EmptyAtStart leaves out the message of welcome that every INBOX otherwise begins with. A probe needs one known
	// message to know that it can see.
	EmptyAtStart bool
	// OnEvent is called for every event, in the goroutine of the connection.
	OnEvent func(Event)
	// Now is the clock of the stored rows. nil: time.Now.
	Now func() time.Time
	// Logger takes the servers' own complaints. nil: discarded.
	Logger *slog.Logger
}

// Mailbox is a running mail server with its mailbox. It is safe for concurrent use.
type Mailbox struct {
	options   Options
	authority []byte
	listeners struct{ smtp, smtps, imap, imaps *world.Listener }
	smtp      *smtp.Server
	imap      *imapserver.Server
	inboxes   inboxes
	store     *store
	events    *events
	faults    *faults
	closing   chan struct{}
	closeOnce sync.Once
	served    sync.WaitGroup
	closeErr  error
}

// Start starts a mailbox. Close ends it.
func Start(options Options) (*Mailbox, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Mailbox{options: options, events: newEvents(options.OnEvent), faults: newFaults(), closing: make(chan struct{})}
	tlsConfig := options.TLS
	if tlsConfig == nil {
		certificate, authority, err := world.Certificate("localhost", "127.0.0.1", options.domain())
		if err != nil {
			return nil, fmt.Errorf("mailbox: %w", err)
		}
		m.authority = authority
		tlsConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	}
	if m.inboxes, err = newInboxes(options); err != nil {
		return nil, fmt.Errorf("mailbox: %w", err)
	}
	if m.store, err = openStore(options.StorePath); err != nil {
		return nil, fmt.Errorf("mailbox: %w", err)
	}
	for _, d := range m.store.all() {
		if err := m.inboxes.deliver(d); err != nil {
			return nil, errors.Join(fmt.Errorf("mailbox: show stored mail %d: %w", d.Seq, err), m.store.close())
		}
	}
	if err := m.listen(); err != nil {
		return nil, errors.Join(fmt.Errorf("mailbox: %w", err), m.Close())
	}
	m.smtp = m.newSMTPServer(tlsConfig)
	m.imap = m.inboxes.newServer(tlsConfig, options)
	// Faults at connect stand below TLS, so that even a client that speaks first meets them.
	m.serve(m.smtp.Serve, &faultyListener{Listener: m.listeners.smtp, mailbox: m})
	m.serve(m.smtp.Serve, tls.NewListener(&faultyListener{Listener: m.listeners.smtps, mailbox: m}, tlsConfig))
	m.serve(m.imap.Serve, m.listeners.imap)
	m.serve(m.imap.Serve, tls.NewListener(m.listeners.imaps, tlsConfig))
	return m, nil
}

func (o Options) withDefaults() (Options, error) {
	for _, address := range []*string{&o.SMTPAddr, &o.SMTPSAddr, &o.IMAPAddr, &o.IMAPSAddr} {
		if *address == "" {
			*address = loopback
		}
	}
	if len(o.Users) == 0 {
		o.Users = []User{{Name: DefaultUser, Password: DefaultPassword}}
	}
	for i, u := range o.Users {
		if u.Name == "" || u.Password == "" {
			return o, fmt.Errorf("mailbox: Users[%d] needs a name and a password", i)
		}
	}
	if o.SessionTimeout < 0 {
		return o, fmt.Errorf("mailbox: SessionTimeout is %v: use a positive duration, or 0 for %v", o.SessionTimeout, DefaultSessionTimeout)
	}
	if o.SessionTimeout == 0 {
		o.SessionTimeout = DefaultSessionTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

func (o Options) domain() string { return DefaultDomain }

func (m *Mailbox) listen() error {
	ctx := context.Background()
	for _, l := range []struct {
		into    **world.Listener
		address string
	}{
		{&m.listeners.smtp, m.options.SMTPAddr},
		{&m.listeners.smtps, m.options.SMTPSAddr},
		{&m.listeners.imap, m.options.IMAPAddr},
		{&m.listeners.imaps, m.options.IMAPSAddr},
	} {
		listener, err := world.Listen(ctx, l.address)
		if err != nil {
			return err
		}
		*l.into = listener
	}
	return nil
}

func (m *Mailbox) serve(serve func(net.Listener) error, l net.Listener) {
	m.served.Go(func() {
		if err := serve(l); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, smtp.ErrServerClosed) {
			m.options.Logger.Warn("mailbox stopped serving", "address", l.Addr().String(), "error", err)
		}
	})
}

// SMTPAddr is where mail is taken, with STARTTLS offered.
func (m *Mailbox) SMTPAddr() string { return m.listeners.smtp.Addr().String() }

// SMTPSAddr is where mail is taken inside TLS.
func (m *Mailbox) SMTPSAddr() string { return m.listeners.smtps.Addr().String() }

// IMAPAddr is where the mailbox is shown, with STARTTLS offered.
func (m *Mailbox) IMAPAddr() string { return m.listeners.imap.Addr().String() }

// IMAPSAddr is where the mailbox is shown inside TLS.
func (m *Mailbox) IMAPSAddr() string { return m.listeners.imaps.Addr().String() }

// AuthorityPEM is the certificate that a client has to trust.
func (m *Mailbox) AuthorityPEM() []byte { return m.authority }

// KillConnections cuts all connections, SMTP and IMAP, and returns how many there were.
func (m *Mailbox) KillConnections() int {
	return m.listeners.smtp.KillConnections() + m.listeners.smtps.KillConnections() +
		m.listeners.imap.KillConnections() + m.listeners.imaps.KillConnections()
}

// Connections returns how many SMTP connections were accepted since the start.
func (m *Mailbox) Connections() int {
	return m.listeners.smtp.Accepted() + m.listeners.smtps.Accepted()
}

// Close stops the servers, cuts the connections, lets go what is held and waits for all of it. A second call does
// nothing.
func (m *Mailbox) Close() error {
	m.closeOnce.Do(func() {
		close(m.closing)
		var errs []error
		for _, l := range []*world.Listener{m.listeners.smtp, m.listeners.smtps, m.listeners.imap, m.listeners.imaps} {
			if l != nil {
				errs = append(errs, l.Close())
			}
		}
		if m.smtp != nil {
			// Close would race with connections that are just being accepted; Shutdown waits for them, and they end at once
			// because their connections are cut.
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := m.smtp.Shutdown(ctx); err != nil && !errors.Is(err, smtp.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, fmt.Errorf("stop SMTP: %w", err))
			}
		}
		if m.imap != nil {
			if err := m.imap.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, fmt.Errorf("stop IMAP: %w", err))
			}
		}
		m.served.Wait()
		errs = append(errs, m.store.close())
		m.closeErr = errors.Join(errs...)
	})
	return m.closeErr
}
