package smtp

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strings"
	"time"

	"github.com/emersion/go-sasl"
	gosmtp "github.com/emersion/go-smtp"
)

// maxPreface bounds what a server may say before TLS, in bytes.
const maxPreface = 64 << 10

// session is one connection to the mail server, for one mail.
type session struct {
	config *Config
	raw    net.Conn // the TCP connection, below TLS and gate
	gate   *gate
	client *gosmtp.Client
	token  string // the access token, if that is how to log in
}

// connect opens a session, up to and with authentication. The phase says where it failed.
func (c *Config) connect(ctx context.Context, until time.Time) (*session, phase, error) {
	var token string
	if c.account.tokens != nil { // before the connection, which would wait for it
		bound, cancel := ctx, func() {}
		if !until.IsZero() {
			bound, cancel = context.WithDeadline(ctx, until)
		}
		var err error
		token, err = c.account.tokens.get(bound, "")
		cancel()
		if err != nil {
			return nil, phaseAuth, withCause(bound, err)
		}
	}
	dialer := net.Dialer{Timeout: c.ConnectTimeout.D(), Deadline: until}
	raw, err := dialer.DialContext(ctx, "tcp", c.address())
	if err != nil {
		return nil, phaseConnect, err
	}
	s := &session{config: c, raw: raw, token: token, gate: &gate{Conn: raw, raw: raw, idle: c.CommandTimeout.D(), until: until}}
	stop := context.AfterFunc(ctx, s.abort)
	defer stop()
	at, err := s.open(ctx)
	if err != nil {
		s.abort()
		return nil, at, withCause(ctx, err)
	}
	return s, at, nil
}

func (s *session) open(ctx context.Context) (phase, error) {
	switch s.config.TLS {
	case ImplicitTLS:
		if err := s.encrypt(ctx); err != nil {
			return phaseTLS, err
		}
	case StartTLS:
		if at, err := s.startTLS(ctx); err != nil {
			return at, err
		}
	}
	s.client = gosmtp.NewClient(s.gate)
	s.client.CommandTimeout = s.config.CommandTimeout.D()
	s.client.SubmissionTimeout = s.config.ReplyTimeout.D()
	if err := s.client.Hello(s.config.Domain); err != nil {
		if s.gate.total == len(s.gate.heard) {
			return phaseConnect, err // no greeting yet: no command has cleared what was heard
		}
		return phaseHello, err
	}
	return phaseAuth, s.authenticate(ctx)
}

// encrypt puts TLS between the gate and the wire.
func (s *session) encrypt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.ConnectTimeout.D())
	defer cancel()
	conn := tls.Client(s.raw, s.config.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	s.gate.Conn = conn
	return nil
}

// startTLS speaks the clear part of the session. The client library would put TLS above the gate, where the gate could
// not see the final dot; so it is done here, and the library starts on the encrypted connection with the greeting that
// was read here.
func (s *session) startTLS(ctx context.Context) (phase, error) {
	if err := s.gate.SetDeadline(time.Now().Add(s.config.CommandTimeout.D())); err != nil {
		return phaseConnect, err
	}
	reader := bufio.NewReader(io.LimitReader(s.raw, maxPreface))
	text := textproto.NewReader(reader)
	_, greeting, err := text.ReadResponse(220)
	if err != nil {
		return phaseConnect, asReply(err)
	}
	if _, err := fmt.Fprintf(s.raw, "EHLO %s\r\n", s.config.Domain); err != nil {
		return phaseHello, err
	}
	_, extensions, err := text.ReadResponse(250)
	if err != nil {
		return phaseHello, asReply(err)
	}
	if !offers(extensions, "STARTTLS") {
		return phaseTLS, errSetting{errors.New("the server does not offer STARTTLS: use another port, or set tls to implicit or none")}
	}
	if _, err := io.WriteString(s.raw, "STARTTLS\r\n"); err != nil {
		return phaseTLS, err
	}
	if _, _, err := text.ReadResponse(220); err != nil {
		return phaseTLS, asReply(err)
	}
	if reader.Buffered() > 0 {
		return phaseTLS, errors.New("the server said more than its answer to STARTTLS: somebody may have put it there")
	}
	if err := s.encrypt(ctx); err != nil {
		return phaseTLS, err
	}
	first, _, _ := strings.Cut(greeting, "\n")
	s.gate.prefix = []byte("220 " + first + "\r\n")
	return phaseTLS, nil
}

// asReply makes a reply of the preface look like one of the library.
func asReply(err error) error {
	var reply *textproto.Error
	if errors.As(err, &reply) {
		return &gosmtp.SMTPError{Code: reply.Code, Message: reply.Msg}
	}
	return err
}

// offers looks for an extension in the answer to EHLO.
func offers(answer, extension string) bool {
	lines := strings.Split(answer, "\n")
	for _, line := range lines[1:] {
		name, _, _ := strings.Cut(line, " ")
		if strings.EqualFold(name, extension) {
			return true
		}
	}
	return false
}

func (s *session) authenticate(ctx context.Context) error {
	account := s.config.account
	switch {
	case account.username == "":
		return nil
	case account.tokens != nil:
		return s.showToken(ctx)
	case s.client.SupportsAuth(sasl.Plain):
		return s.client.Auth(sasl.NewPlainClient("", account.username, account.password))
	case s.client.SupportsAuth(sasl.Login):
		return s.client.Auth(&loginClient{account: account})
	}
	return errSetting{errors.New("the server offers neither AUTH PLAIN nor AUTH LOGIN on this connection")}
}

// loginClient speaks AUTH LOGIN. Servers word the two questions differently, and not all take the user name with the
// command, as the library's client sends it.
type loginClient struct {
	account account
	asked   int
}

func (l *loginClient) Start() (string, []byte, error) { return sasl.Login, nil, nil }

func (l *loginClient) Next([]byte) ([]byte, error) {
	l.asked++
	switch l.asked {
	case 1:
		return []byte(l.account.username), nil
	case 2:
		return []byte(l.account.password), nil
	}
	return nil, sasl.ErrUnexpectedServerChallenge
}

// quit says goodbye, without waiting for an answer, and closes. It must never be called within a message.
func (s *session) quit() {
	_ = s.gate.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(s.gate, "QUIT\r\n")
	_ = s.raw.Close()
}

// abort cuts the connection with a reset. It says nothing, neither in SMTP nor in TLS: within a message any further line
// could become part of it.
func (s *session) abort() {
	s.gate.aborted.Store(true)
	if tcp, ok := s.raw.(*net.TCPConn); ok && !s.gate.begun.Load() {
		_ = tcp.SetLinger(0) // what is still in the kernel's buffers is dropped
	}
	_ = s.raw.Close()
}

// withCause puts the reason of a cancelled call before the error that it led to.
func withCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if deadline, ok := ctx.Deadline(); cause == nil && ok && !time.Now().Before(deadline) {
		cause = context.DeadlineExceeded // the connection's deadline is a moment before the context's
	}
	if cause == nil {
		return err
	}
	return fmt.Errorf("%w (%w)", cause, err)
}
