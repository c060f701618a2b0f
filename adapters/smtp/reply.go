package smtp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	gosmtp "github.com/emersion/go-smtp"

	"github.com/pawlworks/pawl/core/channel"
)

// phase is where a mail transaction is.
type phase string

const (
	phaseConnect   phase = "connect" // the TCP connection and the greeting
	phaseTLS       phase = "tls"
	phaseHello     phase = "hello"
	phaseAuth      phase = "auth"
	phaseMail      phase = "mail"
	phaseRecipient phase = "recipient"
	phaseData      phase = "data"
	phaseBody      phase = "body"
	phaseDot       phase = "dot" // the final dot may be on the wire
)

// beforeMail are the phases in which the server knows nothing of the mail yet: whatever it refuses for good, it refuses
// to the channel.
var beforeMail = []phase{phaseConnect, phaseTLS, phaseHello, phaseAuth}

// authenticationCodes say at any command that the channel may not send: RFC 4954 section 6.
var authenticationCodes = []int{530, 534, 535, 538}

// errSetting marks a fault that only a change of configuration mends.
type errSetting struct{ error }

func (e errSetting) Unwrap() error { return e.error }

// maxReplyText bounds what is kept of a reply in an error, in bytes.
const maxReplyText = 500

// classify turns what went wrong at a phase into what it means. Before the dot everything is proven not sent; after it
// only a refusal is.
func (c *Config) classify(at phase, err error) error {
	var rejected *channel.RejectedError
	if errors.As(err, &rejected) && at != phaseDot {
		return rejected // our own: the server was not asked
	}
	var reply *gosmtp.SMTPError
	if !errors.As(err, &reply) {
		if at == phaseDot {
			return channel.Ambiguous(string(at), fmt.Errorf("no reply to the final dot: %w", c.hide(err)))
		}
		return &channel.NotSentError{Err: fmt.Errorf("%s: %w", at, c.hide(err)), Configuration: isSetting(err)}
	}
	answered := fmt.Errorf("%s: the server answered %s", at, c.replyText(reply))
	switch class := reply.Code / 100; {
	case class == 4:
		return channel.NotSent(answered)
	case class == 5 && (slices.Contains(beforeMail, at) || at != phaseDot && slices.Contains(authenticationCodes, reply.Code)):
		return &channel.NotSentError{Err: answered, Configuration: true}
	case class == 5:
		return channel.Rejected(replyCode(reply), answered)
	case at == phaseDot:
		return channel.Ambiguous(string(at), answered)
	}
	return channel.NotSent(fmt.Errorf("%w, which is no answer to that command", answered))
}

// isSetting tells faults that only a person can mend.
func isSetting(err error) bool {
	var setting errSetting
	var certificate *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var record tls.RecordHeaderError // the server does not speak TLS here
	return errors.As(err, &setting) || errors.As(err, &certificate) || errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &record)
}

// replyCode is the code of a reply, with the enhanced one if there is one.
func replyCode(r *gosmtp.SMTPError) string {
	if r.EnhancedCode == (gosmtp.EnhancedCode{}) {
		return fmt.Sprint(r.Code)
	}
	return fmt.Sprintf("%d %d.%d.%d", r.Code, r.EnhancedCode[0], r.EnhancedCode[1], r.EnhancedCode[2])
}

// replyText is a reply as one line for a person, without secrets.
func (c *Config) replyText(r *gosmtp.SMTPError) string {
	return replyCode(r) + " " + bounded(c.account.redact(r.Message))
}

// hidden errors keep their chain, for errors.As, and lose secrets in their text.
type hiddenError struct {
	text string
	err  error
}

func (e hiddenError) Error() string { return e.text }
func (e hiddenError) Unwrap() error { return e.err }

func (c *Config) hide(err error) error {
	return hiddenError{text: bounded(c.account.redact(err.Error())), err: err}
}

// bounded makes a text fit for an error: one line, valid, not too long.
func bounded(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxReplyText {
		text = strings.ToValidUTF8(text[:maxReplyText], "") + "…"
	}
	return text
}
