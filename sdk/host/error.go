package host

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// State is where an adapter is in its life.
type State int

const (
	Stopped State = iota
	Starting
	Describing
	Configuring
	Ready
	Draining
	Backoff
	Quarantined
)

func (s State) String() string {
	names := [...]string{"stopped", "starting", "describing", "configuring", "ready", "draining", "backoff", "quarantined"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("state(%d)", int(s))
	}
	return names[s]
}

// NotReadyError says that no call was made because the adapter is not ready.
type NotReadyError struct {
	Name       string
	State      State
	RetryAfter time.Duration // until the next start; 0: not known
	Err        error         // why, where known
}

func (e *NotReadyError) Error() string {
	text := fmt.Sprintf("adapter %s is %s", e.Name, e.State)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}
func (e *NotReadyError) Unwrap() error { return e.Err }

// LaunchError says why an adapter process did not become ready, or why it ended.
type LaunchError struct {
	Name string
	// Phase is how far it came: Starting (no handshake yet), Describing, Configuring or Ready.
	Phase State
	// Permanent says that starting it again cannot help: a person must look.
	Permanent bool
	Err       error
	Hint      string   // what to do, for a person; may be empty
	Output    []string // the last lines it wrote, for a person
}

func (e *LaunchError) Error() string {
	text := fmt.Sprintf("adapter %s failed while %s: %v", e.Name, e.Phase, e.Err)
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	if len(e.Output) > 0 {
		text += "; its last output: " + strings.Join(e.Output, " | ")
	}
	return text
}
func (e *LaunchError) Unwrap() error { return e.Err }

func permanent(err error) bool {
	var launch *LaunchError
	return errors.As(err, &launch) && launch.Permanent
}

// Errors that a caller may branch on.
var (
	// ErrWrongChecksum: the program is not the pinned one.
	ErrWrongChecksum = errors.New("the program's checksum is not the pinned one")
	// ErrScriptPinned: the pinned program is a script, and its interpreter is not pinned.
	ErrScriptPinned = errors.New("a pinned program must not be a script: its interpreter is not pinned")
	// ErrProtocol: adapter and engine have no protocol version in common.
	ErrProtocol = errors.New("adapter and engine speak no common protocol version")
	// ErrWeakerSheet: a restarted adapter claims less than it did, or speaks another kind.
	ErrWeakerSheet = errors.New("the restarted adapter's sheet is weaker than before")
	// ErrClosed: the adapter was closed.
	ErrClosed = errors.New("the adapter was closed")
)
