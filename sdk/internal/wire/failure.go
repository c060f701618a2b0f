package wire

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlworks/pawl/core/channel"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

// FromError writes an error. An error that is marked both as ambiguous and as not sent is ambiguous.
func FromError(err error) *adapterv1.Failure {
	var ambiguous *channel.AmbiguousError
	var rejected *channel.RejectedError
	var notSent *channel.NotSentError
	switch {
	case errors.As(err, &ambiguous):
		return &adapterv1.Failure{Message: reason(err, ambiguous, ambiguous.Err), Phase: Text(ambiguous.Phase)}
	case errors.As(err, &rejected):
		return &adapterv1.Failure{
			Kind:    adapterv1.FailureKind_FAILURE_KIND_REJECTED,
			Message: reason(err, rejected, rejected.Err), Code: Text(rejected.Code),
		}
	case errors.As(err, &notSent):
		return &adapterv1.Failure{
			Kind:    adapterv1.FailureKind_FAILURE_KIND_NOT_SENT,
			Message: reason(err, notSent, notSent.Err), RetryAfterNs: int64(notSent.RetryAfter),
			Configuration: notSent.Configuration,
		}
	}
	return &adapterv1.Failure{Message: Text(err.Error())}
}

// reason avoids "not sent: not sent: …" on the other side, without losing what wraps the typed error.
func reason(whole, typed, inner error) string {
	if whole == typed && inner != nil { //nolint:errorlint // identity is what is asked
		return Text(inner.Error())
	}
	return Text(whole.Error())
}

// ToError reads the failure of a send or of a call that makes a token. It is never nil. A kind that is not known is
// an [channel.AmbiguousError].
func ToError(m *adapterv1.Failure) error {
	text := Text(m.GetMessage())
	if text == "" {
		text = "the adapter gave no reason"
	}
	err := errors.New(text)
	switch m.GetKind() {
	case adapterv1.FailureKind_FAILURE_KIND_REJECTED:
		return &channel.RejectedError{Code: Text(m.GetCode()), Err: err}
	case adapterv1.FailureKind_FAILURE_KIND_NOT_SENT:
		return &channel.NotSentError{
			RetryAfter: max(0, time.Duration(m.GetRetryAfterNs())), Configuration: m.GetConfiguration(), Err: err,
		}
	}
	return &channel.AmbiguousError{Phase: Text(m.GetPhase()), Err: err}
}

// Text makes s fit for a message and a log: valid UTF-8, at most [MaxText] bytes.
func Text(s string) string {
	s = s[:min(len(s), 2*MaxText)] // so that a huge text is not rewritten to be thrown away
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= MaxText {
		return s
	}
	const ellipsis = "…"
	cut := MaxText - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + ellipsis
}
