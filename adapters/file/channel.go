package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pawlworks/pawl/core/channel"
)

const (
	// kind is the prefix of effect keys.
	kind = "file"
	// maxPayload bounds a payload, in bytes. A line should stay something that a person can look at.
	maxPayload = 1 << 20
	// settleTime covers clocks that disagree by a little; the lock covers everything else (see the package comment).
	settleTime = time.Second
)

// Sheet is what the adapter claims.
func Sheet() channel.Sheet {
	return channel.Sheet{
		Kind:                   kind,
		Version:                "1.0.0",
		Token:                  channel.TokenDerived,
		Replay:                 channel.ReplayNever,
		Probe:                  channel.ProbeExact,
		NegativeProof:          true,
		Begin:                  true,
		SettleTime:             channel.Duration(settleTime),
		EvidenceNamesOneEffect: true,
		MaxPayload:             maxPayload,
		PayloadSchema:          json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","description":"Any JSON value. It is written as the member payload of the line."}`),
	}
}

// appender is one channel. It keeps nothing open between calls.
type appender struct {
	config Config
}

var _ channel.Channel = (*appender)(nil)

// New makes a channel and, if need be, its file. The configuration is that of [Config], as JSON.
func New(ctx context.Context, raw json.RawMessage) (channel.Channel, error) {
	config, err := parseConfig(raw)
	if err != nil {
		return nil, err
	}
	// Made now, the file is older than the first attempt: a younger one has been exchanged.
	f, _, err := openForAppend(ctx, config.Path)
	if err != nil {
		return nil, fmt.Errorf("file: path: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("file: path: %w", err)
	}
	return &appender{config: config}, nil
}

// IdempotencyToken returns a hash of run and effect key.
func (a *appender) IdempotencyToken(_ context.Context, request channel.TokenRequest) (channel.Token, error) {
	if n := len(request.Intent.Payload); n > maxPayload {
		return channel.Token{}, channel.Rejected("", fmt.Errorf("payload has %d bytes, at most %d fit", n, maxPayload))
	}
	return channel.Token{Version: request.Version, Data: []byte(tokenOf(request.Intent))}, nil
}

// Send appends the line and flushes it.
func (a *appender) Send(ctx context.Context, attempt channel.Attempt) (channel.Outcome, error) {
	token := string(attempt.Token().Data)
	if token != tokenOf(attempt.Intent) {
		return channel.Outcome{}, channel.NotSent(errors.New("the token is not that of the intent"))
	}
	text, err := formatLine(token, attempt.Intent)
	if err != nil {
		return channel.Outcome{}, channel.Rejected("", fmt.Errorf("format the line: %w", err))
	}
	f, size, err := openForAppend(ctx, a.config.Path)
	if err != nil {
		return channel.Outcome{}, &channel.NotSentError{Err: err, Configuration: isConfigurationFault(err)}
	}
	defer func() { _ = f.Close() }() // lets the lock go; a flush that failed was reported by Sync
	if err := ctx.Err(); err != nil {
		return channel.Outcome{}, channel.NotSent(context.Cause(ctx))
	}
	if err := attempt.Begin(); err != nil {
		return channel.Outcome{}, err
	}
	// One write. os.File.Write goes on after a short write and reports an error only where the rest failed; the line feed
	// is the last byte, so that anything short of all bytes is no effect.
	if n, err := f.Write(text); err != nil {
		if n < len(text) {
			_ = f.Truncate(size) // the next writer does it otherwise
			return channel.Outcome{}, channel.NotSent(fmt.Errorf("append to %s: %w", a.config.Path, err))
		}
		return channel.Outcome{}, channel.Ambiguous("write", fmt.Errorf("append to %s: %w", a.config.Path, err))
	}
	if err := f.Sync(); err != nil {
		return channel.Outcome{}, channel.Ambiguous("flush", fmt.Errorf("flush %s: %w", a.config.Path, err))
	}
	return channel.Delivered(a.evidence(token, size, len(text))), nil
}

// Probe looks for the line, with the lock held while it looks at the size.
func (a *appender) Probe(ctx context.Context, attempt channel.Attempt) (channel.Finding, error) {
	token := tokenOf(attempt.Intent)
	f, err := openLocked(ctx, a.config.Path, os.O_RDWR)
	if errors.Is(err, os.ErrNotExist) {
		return channel.UnknownFinding("the file is gone: the effect may be in what was there before"), nil
	}
	if err != nil {
		return channel.Finding{}, err
	}
	defer func() { _ = f.Close() }()
	began, err := readHeader(f)
	if err != nil {
		return channel.Finding{}, err
	}
	size, err := endOfLastLine(f)
	if err != nil {
		return channel.Finding{}, err
	}
	// From here on writers may go on: what they append is not part of the answer.
	if err := unlock(f); err != nil {
		return channel.Finding{}, err
	}
	hit, err := search(ctx, f, size, token)
	if err != nil {
		return channel.Finding{}, fmt.Errorf("search %s: %w", a.config.Path, err)
	}
	if hit == nil {
		if err := unchanged(f, began, size); err != nil {
			return channel.Finding{}, err
		}
		if !attempt.FirstSentAt.IsZero() && began.Since.After(attempt.FirstSentAt) {
			return channel.UnknownFinding(fmt.Sprintf("the file began at %s, after the first attempt: the effect may be in the file before it",
				began.Since.Format(time.RFC3339Nano))), nil
		}
		return channel.AbsentForGood("no whole line has the token, and no writer was at work"), nil
	}
	if hit.line.PayloadDigest != attempt.Intent.PayloadDigest {
		return channel.UnknownFinding(fmt.Sprintf("the line at offset %d has the token but another payload", hit.offset)), nil
	}
	if err := settle(ctx, f, began, size, hit); err != nil {
		return channel.UnknownFinding(fmt.Sprintf("the line at offset %d can be read, but not be made safe: %v", hit.offset, err)), nil
	}
	return channel.SentFinding(channel.MatchExact, a.evidence(token, hit.offset, hit.length)), nil
}

// evidence names the line by its token: the id that a reader of the file can search for.
func (a *appender) evidence(token string, offset int64, length int) channel.Evidence {
	detail, err := json.Marshal(struct {
		Path   string `json:"path"`
		Offset int64  `json:"offset"`
		Length int    `json:"length"`
	}{a.config.Path, offset, length})
	if err != nil { // cannot happen: strings and numbers
		detail = nil
	}
	return channel.Evidence{ID: token, Detail: detail}
}

// isConfigurationFault tells faults that only a person can mend from those that pass.
func isConfigurationFault(err error) bool {
	return errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) || errors.Is(err, errForeignFile)
}
