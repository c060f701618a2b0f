package channel

import (
	"encoding/json"
	"fmt"
	"time"
)

// Sheet is the capability sheet: what a channel claims about its outside system. It is data, declared once, readable
// without configuration or network. The engine derives from it what it may do and refuses what would be unsafe; the
// conformance suite proves it. The zero Sheet is the weakest channel there is.
type Sheet struct {
	Kind    string    `json:"kind"`    // prefix of effect keys: lower-case letters and digits
	Version string    `json:"version"` // the adapter's own version
	Token   TokenKind `json:"token"`
	// Replay says whether sending the same stored bytes again is harmless, also when two copies are under way at once.
	Replay Replay `json:"replay"`
	// TokenLife is how long after the first stamp a replay stays harmless, for ReplayWithinLife.
	TokenLife Duration `json:"token_life,omitempty"`
	Probe     Strength `json:"probe"`
	// NegativeProof says that the probe can answer absent for good, and reads the authority, not a copy.
	NegativeProof bool `json:"negative_proof"`
	// Begin says that Send calls Attempt.Begin before the wire, always.
	Begin bool `json:"begin"`
	// FindsWithoutToken says that the probe finds the effect also where no token is stored, or not the newest: by its content, or by an id
	// that follows from the intent.
	FindsWithoutToken bool `json:"finds_without_token,omitempty"`
	// SettleTime is how long after the last possible send an effect may still show.
	SettleTime Duration `json:"settle_time"`
	// ProbeHorizon is how far back a probe can look; 0: as far as needed.
	ProbeHorizon Duration `json:"probe_horizon,omitempty"`
	// MayAccept says that Send may answer accepted; FinalWithin is how long it may stay so.
	MayAccept   bool     `json:"may_accept,omitempty"`
	FinalWithin Duration `json:"final_within,omitempty"`
	// AcceptedFreesLane lets the next intent of a lane start when this one is accepted.
	AcceptedFreesLane bool `json:"accepted_frees_lane,omitempty"`
	// LaneRequired says that every intent needs a lane; LaneNumbers that tokens draw from the lane's sequence.
	LaneRequired bool `json:"lane_required,omitempty"`
	LaneNumbers  bool `json:"lane_numbers,omitempty"`
	// EvidenceNamesOneEffect says that one evidence id belongs to one effect on the whole channel.
	EvidenceNamesOneEffect bool `json:"evidence_names_one_effect,omitempty"`
	MaxPayload             int  `json:"max_payload,omitempty"`   // bytes; 0: the engine's limit
	MaxInFlight            int  `json:"max_in_flight,omitempty"` // sends at once over all engines' own limits; 0: the engine's
	RatePerMinute          int  `json:"rate_per_minute,omitempty"`
	// PayloadSchema is a JSON Schema 2020-12 that payloads are checked against when they are claimed.
	PayloadSchema json.RawMessage `json:"payload_schema,omitempty"`
}

// TokenKind says how a token comes to be.
type TokenKind string

const (
	TokenDerived   TokenKind = "derived"   // a pure function of the intent
	TokenAllocated TokenKind = "allocated" // frozen bytes that must be stored before the send
)

// Replay says whether the same stored bytes may be sent again.
type Replay string

const (
	ReplayNever      Replay = "never"
	ReplayWithinLife Replay = "within_life"
	ReplayForEver    Replay = "for_ever"
)

// Strength is how much a sent answer of the probe can be trusted.
type Strength string

const (
	ProbeNone      Strength = "none"
	ProbeHeuristic Strength = "heuristic"
	ProbeExact     Strength = "exact"
)

// Normal returns the sheet with every unknown value replaced by the weakest and meaningless combinations cleared.
func (s Sheet) Normal() Sheet {
	if s.Token != TokenDerived {
		s.Token = TokenAllocated // the careful reading: stored bytes are used, never remade
	}
	switch s.Replay {
	case ReplayForEver:
		s.TokenLife = 0
	case ReplayWithinLife:
		if s.TokenLife <= 0 {
			s.Replay = ReplayNever
		}
	default:
		s.Replay, s.TokenLife = ReplayNever, 0
	}
	if s.Probe != ProbeExact && s.Probe != ProbeHeuristic {
		s.Probe = ProbeNone
	}
	if s.Probe != ProbeExact {
		s.NegativeProof = false
	}
	return s
}

// Duration is a time.Duration that is written as text ("2m0s") in JSON, so that a person can read a sheet.
type Duration time.Duration

// D returns the duration as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the duration as time.Duration prints it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("duration %q: use a number with a unit, such as 30s or 2m", b)
	}
	*d = Duration(v)
	return nil
}
