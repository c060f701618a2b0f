package ledger

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
)

const (
	// MaxPayload bounds a payload, in bytes: payload and frozen token travel to the adapter in one message of 32 MiB.
	MaxPayload = 12 << 20
	// MaxEffectKey and MaxName bound effect keys, and the names of channels and lanes, in bytes.
	MaxEffectKey = 512
	MaxName      = 128
	// MaxClaims bounds a batch.
	MaxClaims = 10_000
)

// Claim asks for an effect.
type Claim struct {
	RunID     string // UUID
	EffectKey string // "kind:…": see package canonical
	Channel   string // the configured channel, "mail/marketing"
	Payload   []byte // JSON; the exact bytes that will be sent from
	Lane      string // ordering key; empty for none
	DueAt     time.Time
	ExpiresAt time.Time // never sent at or after it; zero: no end
	Approval  *Approval
	// Lease is the lease of the run, if the run is leased; it is verified last, in the same transaction.
	Lease *fence.Lease
	// TraceParent is the W3C trace context of the claimer, kept with the intent so that its attempts join the same trace; empty for
	// none. One that has another form is dropped: a broken header must not stop an effect.
	TraceParent string
}

// ClaimStatus says what a claim found.
type ClaimStatus string

const (
	ClaimNew          ClaimStatus = "new"
	ClaimDeduplicated ClaimStatus = "deduplicated"
	ClaimConflict     ClaimStatus = "conflict"
)

// ClaimResult is the answer to one claim of a batch.
type ClaimResult struct {
	Status ClaimStatus
	Key    Key    // as stored: in shadow the effect key has ShadowPrefix
	Intent Intent // as stored
}

var (
	uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	nameForm = regexp.MustCompile(`^[a-z][a-z0-9]*(/[A-Za-z0-9._-]+)?$`)
)

// Prepared is a claim that was checked, with what is stored beside it.
type Prepared struct {
	Claim
	Kind          string
	PayloadDigest string // bare hex
}

// Prepare checks what can be checked of a claim without a ledger: every field's form, the payload's JSON and size. The
// error is an [*InvalidError] that names the field.
func Prepare(c Claim) (Prepared, error) {
	c.RunID = strings.ToLower(c.RunID)
	switch {
	case !uuidForm.MatchString(c.RunID):
		return Prepared{}, invalid("run_id", "%q is not a UUID; use one for each unit of work", cut(c.RunID, 64))
	case len(c.EffectKey) > MaxEffectKey:
		return Prepared{}, invalid("effect_key", "is %d bytes, more than %d; put a digest in it", len(c.EffectKey), MaxEffectKey)
	case strings.HasPrefix(c.EffectKey, ShadowPrefix):
		return Prepared{}, invalid("effect_key", "must not begin with %q, which marks claims made in shadow", ShadowPrefix)
	case len(c.Channel) > MaxName || !nameForm.MatchString(c.Channel):
		return Prepared{}, invalid("channel", "%q is no channel name; use kind or kind/name, such as mail/marketing", cut(c.Channel, 64))
	case len(c.Lane) > MaxName || !plainText(c.Lane):
		return Prepared{}, invalid("lane", "must be at most %d bytes of plain text", MaxName)
	case len(c.Payload) > MaxPayload:
		return Prepared{}, invalid("payload", "is %d bytes, more than %d", len(c.Payload), MaxPayload)
	case !Keepable(c.DueAt):
		return Prepared{}, invalid("due_at", unkeepable)
	case !Keepable(c.ExpiresAt):
		return Prepared{}, invalid("expires_at", unkeepable)
	case c.Approval != nil && !Keepable(c.Approval.Until):
		return Prepared{}, invalid("approval", "until "+unkeepable)
	case !c.ExpiresAt.IsZero() && !c.DueAt.IsZero() && !c.ExpiresAt.After(c.DueAt):
		return Prepared{}, invalid("expires_at", "is not after due_at: it could never be sent")
	}
	if !plainText(c.EffectKey) {
		return Prepared{}, invalid("effect_key", "must be plain text")
	}
	kind, err := canonical.KeyKind(c.EffectKey)
	if err != nil {
		return Prepared{}, invalid("effect_key", "%v", err)
	}
	if own, _, _ := strings.Cut(c.Channel, "/"); own != kind && c.Channel != ChannelLocal {
		return Prepared{}, invalid("effect_key", "begins with %q but the channel %s is of kind %q", kind, c.Channel, own)
	}
	digest, err := canonical.SumExact(c.Payload) // an approved digest stands for one reading of the payload
	if err != nil {
		return Prepared{}, invalid("payload", "%v", err)
	}
	c.TraceParent = validTrace(c.TraceParent)
	if c.Lease != nil && c.Lease.RunID != c.RunID {
		return Prepared{}, invalid("lease", "is for run %s, the claim for run %s", c.Lease.RunID, c.RunID)
	}
	return Prepared{Claim: c, Kind: kind, PayloadDigest: digest.Hex()}, nil
}

// Admit checks a prepared claim against its channel as it stands in the ledger: flag, payload size and schema, lane,
// approval. now is the database's clock. In shadow the effect key gets [ShadowPrefix]. A claim that is refused may have been taken before:
// a backend MUST look for its intent ([Prepared.KeyOn]) first, and deduplicate it if the payload is the same, so that a caller who asks
// again, because the answer to its commit was lost, is never told no about an effect that fires.
func (p Prepared) Admit(row ChannelRow, now time.Time, schemas *Schemas) (Prepared, error) {
	sheet := row.Sheet
	switch {
	case row.Flag == FlagOff:
		return p, ErrChannelOff
	case sheet.MaxPayload > 0 && len(p.Payload) > sheet.MaxPayload:
		return p, invalid("payload", "is %d bytes, more than the %d that channel %s takes", len(p.Payload), sheet.MaxPayload, p.Channel)
	case sheet.LaneRequired && p.Lane == "":
		return p, invalid("lane", "channel %s needs one on every claim", p.Channel)
	case row.ApprovalRequired && p.Approval == nil:
		return p, invalid("approval", "channel %s requires one", p.Channel)
	}
	if err := schemas.Check(sheet.PayloadSchema, p.Payload); err != nil {
		return p, err
	}
	if p.Approval != nil {
		if reason := p.Approval.Check(p.Channel, p.EffectKey, p.PayloadDigest, now); reason != "" {
			return p, invalid("approval", "%s", reason)
		}
	}
	p.EffectKey = p.KeyOn(row).EffectKey
	return p, nil
}

// KeyOn is the key that the claim has, or would have, on the channel: in shadow with [ShadowPrefix].
func (p Prepared) KeyOn(row ChannelRow) Key {
	if row.Flag == FlagShadow {
		return Key{p.RunID, ShadowPrefix + p.EffectKey}
	}
	return Key{p.RunID, p.EffectKey}
}

// Intent is the row that a new claim inserts.
func (p Prepared) Intent(now time.Time) Intent {
	i := Intent{
		Key: Key{p.RunID, p.EffectKey}, State: StateIntent, Kind: p.Kind, Channel: p.Channel, Payload: p.Payload,
		PayloadDigest: p.PayloadDigest, Lane: p.Lane, Approval: p.Approval, DueAt: p.DueAt, ExpiresAt: p.ExpiresAt, CreatedAt: now,
		TraceParent: p.TraceParent,
	}
	if i.DueAt.IsZero() {
		i.DueAt = now
	}
	if p.Lease != nil {
		i.RunNumber = p.Lease.Fence.Number
	}
	return i
}

const unkeepable = "is not between the years 1970 and 9999, in UTC"

// Keepable reports whether every backend can keep the time and JSON can show it again: from 1970 to 9999, in UTC and to the microsecond, as
// it is kept. The zero time, which stands for none, is.
func Keepable(t time.Time) bool {
	if t.IsZero() {
		return true
	}
	year := t.UTC().Round(time.Microsecond).Year()
	return year >= 1970 && year <= 9999
}

func plainText(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if r < 0x20 || r == 0x7f {
			return false
		}
	}
	return true
}

// Flag is what a channel does with claims.
type Flag string

const (
	FlagOff    Flag = "off"    // claims are refused
	FlagPaused Flag = "paused" // claimed, waiting
	FlagShadow Flag = "shadow" // everything up to the token, nothing sent
	FlagOn     Flag = "on"
)

// ChannelRow is a row of channels.
type ChannelRow struct {
	Name             string
	Kind             string
	Sheet            channel.Sheet
	Flag             Flag
	Paused           bool // by a person or by the engine; beside the flag
	PauseReason      string
	ApprovalRequired bool
	RatePerMinute    int // shared by all engines; 0: none
	UpdatedAt        time.Time
}

// Sends reports whether a dispatcher may take the channel's intents.
func (r ChannelRow) Sends() bool { return !r.Paused && (r.Flag == FlagOn || r.Flag == FlagShadow) }
