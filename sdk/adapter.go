package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"

	"github.com/pawlworks/pawl/sdk/internal/server"
	"github.com/pawlworks/pawl/sdk/internal/wire"
)

// Version is the version of this SDK.
const Version = "0.1.0"

// The version of the wire. The major version is settled in the handshake, the minor one in Describe.
const (
	ProtocolMajor = wire.ProtocolMajor
	ProtocolMinor = wire.ProtocolMinor
)

// MaxMessage is the largest message that crosses the border, in bytes, in both directions. Payload and token travel
// in one message.
const MaxMessage = wire.MaxMessage

// Adapter is one adapter: what it claims and how to make its channel.
type Adapter struct {
	// Sheet is the capability sheet. It needs no configuration and no network.
	Sheet Sheet
	// New makes the channel. It is called once, with the configuration as JSON, which may hold secrets. It SHOULD
	// check the whole configuration and name every wrong field; it SHOULD NOT need the outside system to be up. ctx
	// lives as long as the process; it carries the [Logger].
	//
	// If the channel is an io.Closer, Close is called when the process ends in order. If it is a [HealthChecker], its
	// opinion is shown to operators.
	New func(ctx context.Context, config json.RawMessage) (Channel, error)
	// ConfigExample and ConfigSchema document the configuration for a person and for a tool. Optional. Both are
	// printed by the describe command.
	ConfigExample json.RawMessage
	ConfigSchema  json.RawMessage
}

// HealthChecker is an optional part of a [Channel]: what it thinks of itself. It SHOULD answer within a second and
// MUST NOT change the outside system. Being unwell never gets the process restarted; not answering does.
type HealthChecker = server.HealthChecker

// Logger returns the logger of the context that New or a method of the channel was given. It writes one JSON object
// per line to standard error, and names the call.
func Logger(ctx context.Context) *slog.Logger { return server.Logger(ctx) }

var kindPattern = regexp.MustCompile(`^[a-z][a-z0-9]*$`)

// Validate reports every fault of the adapter's own declaration.
func (a Adapter) Validate() error {
	var faults []error
	if !kindPattern.MatchString(a.Sheet.Kind) {
		faults = append(faults, fmt.Errorf("field Sheet.Kind %q: use lower-case letters and digits, starting with a letter", a.Sheet.Kind))
	}
	if a.Sheet.Version == "" {
		faults = append(faults, errors.New("field Sheet.Version is empty: give the adapter's own version"))
	}
	if a.New == nil {
		faults = append(faults, errors.New("field New is nil: give the function that makes the channel"))
	}
	for name, document := range map[string]json.RawMessage{
		"Sheet.PayloadSchema": a.Sheet.PayloadSchema, "ConfigExample": a.ConfigExample, "ConfigSchema": a.ConfigSchema,
	} {
		if len(document) > 0 && !json.Valid(document) {
			faults = append(faults, fmt.Errorf("field %s is not valid JSON", name))
		}
	}
	return errors.Join(faults...)
}
