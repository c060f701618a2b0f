package config

import (
	"fmt"
	"strings"
)

// Fault is one thing that is wrong. It prints in one line.
type Fault struct {
	Place   string // "pawl.yaml:7:3", or the name of an environment variable
	Key     string // "channels.mail/marketing.policy.unknown"; empty: the whole file
	Problem string // what is wrong and what to do
}

func (f Fault) String() string {
	if f.Key == "" {
		return fmt.Sprintf("%s: %s", f.Place, f.Problem)
	}
	return fmt.Sprintf("%s: %s: %s", f.Place, f.Key, f.Problem)
}

// Error lists every fault of a configuration, a line each, in order of their place.
type Error struct{ Faults []Fault }

func (e *Error) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}
