package mailbox

import (
	"errors"
	"fmt"
	"strings"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// XOAUTH2 is the mechanism that Google and Microsoft have for access tokens.
const XOAUTH2 = "XOAUTH2"

// bearerServer is the server's side of XOAUTH2 and of OAUTHBEARER (RFC 7628): a token is taken at once; one that is not is answered with a
// challenge that says why, and refused after the client's answer to it, which must be empty (a single 0x01 for OAUTHBEARER).
type bearerServer struct {
	mechanism string
	accept    func(username, token string) bool
	begin     func(username string) error
	refusal   error
	refused   bool
}

// bearerMechanisms are offered where tokens are accepted.
func (o Options) bearerMechanisms() []string {
	if o.AcceptToken == nil {
		return nil
	}
	if o.OnlyOAuthBearer {
		return []string{sasl.OAuthBearer}
	}
	return []string{XOAUTH2, sasl.OAuthBearer}
}

func (b *bearerServer) Next(response []byte) (challenge []byte, done bool, err error) {
	switch {
	case b.refused:
		want := ""
		if b.mechanism == sasl.OAuthBearer {
			want = "\x01"
		}
		if string(response) != want {
			return nil, true, errors.New("the client did not end the exchange as the mechanism asks")
		}
		return nil, true, b.refusal
	case response == nil:
		return []byte{}, false, nil
	}
	username, token, err := readBearer(b.mechanism, string(response))
	if err != nil {
		return nil, true, err
	}
	if !b.accept(username, token) {
		b.refused = true
		return []byte(`{"status":"401","schemes":"bearer","scope":"https://mail.example.test/"}`), false, nil
	}
	return nil, true, b.begin(username)
}

// readBearer reads "user=…^Aauth=Bearer …^A^A", or "n,a=…,^Aauth=Bearer …^A^A".
func readBearer(mechanism, response string) (username, token string, err error) {
	head, rest, _ := strings.Cut(response, "\x01")
	ok := false
	if mechanism == XOAUTH2 {
		username, ok = strings.CutPrefix(head, "user=")
	} else if username, ok = strings.CutPrefix(head, "n,a="); ok {
		username, ok = strings.CutSuffix(username, ",")
		username = strings.NewReplacer("=2C", ",", "=3D", "=").Replace(username)
	}
	token, bearer := strings.CutPrefix(rest, "auth=Bearer ")
	token, ended := strings.CutSuffix(token, "\x01\x01")
	if !ok || !bearer || !ended || username == "" {
		return "", "", fmt.Errorf("no response of %s: %q", mechanism, head)
	}
	return username, token, nil
}

func (s *session) bearer(mechanism string) sasl.Server {
	return &bearerServer{
		mechanism: mechanism, accept: s.mailbox.options.AcceptToken, refusal: smtp.ErrAuthFailed,
		begin: func(string) error { s.authenticated = true; return nil },
	}
}

// bearerSession is an IMAP session that takes tokens, too.
type bearerSession struct {
	imapserver.SessionIMAP4rev2
	options Options
}

var _ imapserver.SessionSASL = (*bearerSession)(nil)

func (s *bearerSession) AuthenticateMechanisms() []string {
	return append(s.options.bearerMechanisms(), sasl.Plain)
}

func (s *bearerSession) Authenticate(mechanism string) (sasl.Server, error) {
	if mechanism == sasl.Plain {
		return sasl.NewPlainServer(func(_, username, password string) error { return s.Login(username, password) }), nil
	}
	refusal := &imap.Error{Type: imap.StatusResponseTypeNo, Code: imap.ResponseCodeAuthenticationFailed, Text: "the token is not good"}
	return &bearerServer{mechanism: mechanism, accept: s.options.AcceptToken, refusal: refusal, begin: func(username string) error {
		for _, u := range s.options.Users {
			if u.Name == username {
				return s.Login(u.Name, u.Password)
			}
		}
		return refusal
	}}, nil
}
