package smtp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	gosmtp "github.com/emersion/go-smtp"
)

// The mechanisms that show an access token.
const (
	xoauth2     = "XOAUTH2"     // Google's and Microsoft's
	oauthBearer = "OAUTHBEARER" // RFC 7628
)

// bearer shows an access token.
type bearer struct {
	mechanism, username, token string
	refusal                    *refusal // what the server says before it refuses
}

// refusal is the server's challenge after a token that it does not take.
type refusal struct {
	Status string `json:"status"`
	Scope  string `json:"scope"`
}

// Start returns the mechanism with its first response.
func (b *bearer) Start() (mechanism string, first []byte, err error) {
	return b.mechanism, bearerResponse(b.mechanism, b.username, b.token), nil
}

func bearerResponse(mechanism, username, token string) []byte {
	if mechanism == oauthBearer {
		return fmt.Appendf(nil, "n,a=%s,\x01auth=Bearer %s\x01\x01", gs2(username), token)
	}
	return fmt.Appendf(nil, "user=%s\x01auth=Bearer %s\x01\x01", username, token)
}

// gs2 writes a name as RFC 5801 has it: , and = would end it.
func gs2(name string) string {
	var out []byte
	for i := range len(name) {
		switch name[i] {
		case ',':
			out = append(out, "=2C"...)
		case '=':
			out = append(out, "=3D"...)
		default:
			out = append(out, name[i])
		}
	}
	return string(out)
}

// Next takes the server's challenge, which comes only before a refusal, and answers what ends the exchange.
func (b *bearer) Next(challenge []byte) ([]byte, error) {
	if b.refusal != nil {
		return nil, fmt.Errorf("the server asks again after it has refused the token (status %s)", bounded(b.refusal.Status))
	}
	b.refusal = &refusal{Status: "not said"}
	var said refusal
	if json.Unmarshal(challenge, &said) == nil && said.Status != "" {
		*b.refusal = said
	}
	if b.mechanism == oauthBearer {
		return []byte{1}, nil
	}
	return []byte{}, nil
}

// why is what the refusal says, for a person.
func (b *bearer) why() string {
	if b.refusal == nil {
		return ""
	}
	text := " (the token was refused with status " + bounded(b.refusal.Status)
	if b.refusal.Scope != "" {
		text += ", it needs the scope " + bounded(b.refusal.Scope)
	}
	return text + ")"
}

// shown are the forms in which a token goes over the wire, and which a server may echo.
func shown(username, token string) []string {
	all := []string{token}
	for _, mechanism := range mechanisms() {
		all = append(all, base64.StdEncoding.EncodeToString(bearerResponse(mechanism, username, token)))
	}
	return all
}

// showToken logs in to the mail server with the access token, and if that one is refused once more with another: it may have been
// revoked before its time.
func (s *session) showToken(ctx context.Context) error {
	mechanism, err := chooseMechanism(s.client.SupportsAuth)
	if err != nil {
		return err
	}
	account := s.config.account
	return account.show(ctx, s.token, func(token string) (again bool, err error) {
		b := &bearer{mechanism: mechanism, username: account.username, token: token}
		err = s.client.Auth(b)
		var reply *gosmtp.SMTPError
		if errors.As(err, &reply) && reply.Code/100 == 5 {
			told := *reply
			told.Message += b.why()
			return true, &told
		}
		return false, err
	})
}

// showToken logs in to the mailbox in the same way.
func (i *IMAP) showToken(ctx context.Context, client *imapclient.Client) error {
	mechanism, err := chooseMechanism(func(name string) bool { return client.Caps().Has(imap.AuthCap(name)) })
	if err != nil {
		return err
	}
	token, err := i.account.tokens.get(ctx, "")
	if err != nil {
		return err
	}
	return i.account.show(ctx, token, func(token string) (again bool, err error) {
		b := &bearer{mechanism: mechanism, username: i.account.username, token: token}
		err = client.Authenticate(b)
		var refused *imap.Error
		if err != nil && b.refusal != nil || errors.As(err, &refused) && refused.Code != imap.ResponseCodeUnavailable {
			return true, fmt.Errorf("%w%s", err, b.why())
		}
		return false, err
	})
}

// show shows a token, and where that calls for another one, that, once.
func (a account) show(ctx context.Context, token string, try func(token string) (again bool, err error)) error {
	again, refusal := try(token)
	if refusal == nil || !again {
		return refusal
	}
	other, err := a.tokens.get(ctx, token)
	if err != nil {
		// The reply is not in the chain: what became of the next token counts.
		return fmt.Errorf("%s, and there is no other token: %w", refusal.Error(), err)
	}
	if other == token {
		return refusal
	}
	_, err = try(other)
	return err
}
