package mailbox

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/pawlworks/pawl/conformance/world"
)

func (m *Mailbox) newSMTPServer(tlsConfig *tls.Config) *smtp.Server {
	server := smtp.NewServer(smtp.BackendFunc(m.newSession))
	server.Domain = m.options.domain()
	server.TLSConfig = tlsConfig
	server.AllowInsecureAuth = true // tests of every way to authenticate; nothing here is secret
	server.MaxMessageBytes = maxMessage
	server.ReadTimeout = m.options.SessionTimeout
	server.WriteTimeout = m.options.SessionTimeout
	server.EnableSMTPUTF8 = !m.options.WithoutSMTPUTF8
	server.ErrorLog = slog.NewLogLogger(m.options.Logger.Handler(), slog.LevelWarn)
	return server
}

type session struct {
	mailbox       *Mailbox
	conn          *smtp.Conn
	authenticated bool
	sender        string
	recipients    []string
}

func (m *Mailbox) newSession(conn *smtp.Conn) (smtp.Session, error) {
	s := &session{mailbox: m, conn: conn}
	if err := s.reach(PhaseHello); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *session) reach(phase Phase, accepted ...Delivery) error {
	event := Event{Phase: phase, Remote: s.conn.Conn().RemoteAddr().String(), Sender: s.sender, Accepted: accepted}
	if len(s.recipients) > 0 {
		event.Recipient = s.recipients[len(s.recipients)-1]
	}
	return s.mailbox.reach(s.conn.Conn(), event)
}

func (s *session) AuthMechanisms() []string {
	if s.mailbox.options.OnlyOAuthBearer {
		return s.mailbox.options.bearerMechanisms()
	}
	return append(s.mailbox.options.bearerMechanisms(), sasl.Plain, sasl.Login)
}

func (s *session) Auth(mechanism string) (sasl.Server, error) {
	if err := s.reach(PhaseAuth); err != nil {
		return nil, err
	}
	authenticate := func(username, password string) error {
		for _, u := range s.mailbox.options.Users {
			if u.Name == username && u.Password == password {
				s.authenticated = true
				return nil
			}
		}
		return smtp.ErrAuthFailed
	}
	switch mechanism {
	case XOAUTH2, sasl.OAuthBearer:
		if s.mailbox.options.AcceptToken != nil {
			return s.bearer(mechanism), nil
		}
	case sasl.Plain:
		return sasl.NewPlainServer(func(_, username, password string) error { return authenticate(username, password) }), nil
	case sasl.Login:
		return &loginServer{authenticate: authenticate}, nil
	}
	return nil, smtp.ErrAuthUnknownMechanism
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.mailbox.options.RequireAuth && !s.authenticated {
		return &smtp.SMTPError{Code: 530, EnhancedCode: smtp.EnhancedCode{5, 7, 0}, Message: "Authentication required"}
	}
	s.sender = from
	return s.reach(PhaseMail)
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.recipients = append(s.recipients, to)
	err := s.reach(PhaseRecipient)
	if err != nil {
		s.recipients = s.recipients[:len(s.recipients)-1]
	}
	return err
}

func (s *session) Data(r io.Reader) error {
	// The first byte is read (not taken) before the phase is announced: whoever waits for it knows that DATA is under way.
	reader := bufio.NewReader(r)
	if _, err := reader.Peek(1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := s.reach(PhaseBody); err != nil {
		return err
	}
	raw, err := io.ReadAll(reader)
	if err != nil {
		return err // the connection ended before the final dot: nothing was accepted
	}
	if err := s.reach(PhaseDot); err != nil {
		return err
	}
	rows := make([]Delivery, 0, len(s.recipients))
	for _, recipient := range s.recipients {
		rows = append(rows, newDelivery(s.sender, recipient, raw, s.mailbox.options.Now().UTC()))
	}
	rows, err = s.mailbox.store.add(rows)
	if err != nil {
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "cannot store the message"}
	}
	for _, row := range rows {
		if err := s.mailbox.inboxes.deliver(row); err != nil {
			// It counts already; not showing it would make the world lie. There is no reply that says that.
			world.Cut(s.conn.Conn())
			return err
		}
	}
	if err := s.reach(PhaseAccepted, rows...); err != nil {
		return err
	}
	return &smtp.SMTPError{
		Code: 250, EnhancedCode: smtp.EnhancedCode{2, 0, 0},
		Message: fmt.Sprintf("Ok: queued as %08X", rows[0].Seq),
	}
}

func (s *session) Reset() { s.sender, s.recipients = "", nil }

func (s *session) Logout() error { return nil }

// loginServer is the server's side of the LOGIN mechanism, which the library lacks.
type loginServer struct {
	authenticate func(username, password string) error
	username     *string
}

func (l *loginServer) Next(response []byte) (challenge []byte, done bool, err error) {
	if l.username == nil {
		if response == nil {
			return []byte("Username:"), false, nil
		}
		username := strings.TrimSpace(string(response))
		l.username = &username
		return []byte("Password:"), false, nil
	}
	return nil, true, l.authenticate(*l.username, string(response))
}
