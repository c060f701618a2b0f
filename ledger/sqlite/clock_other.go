//go:build !linux && !darwin

package sqlite

import (
	"errors"
	"time"
)

// systemClock refuses: without a clock that counts from the boot a ledger cannot tell when a fence is dead.
type systemClock struct{}

func newSystemClock() hostClock { return systemClock{} }

var errNoBootClock = errors.New("the embedded ledger runs on Linux and macOS; use the Postgres ledger here")

func (systemClock) BootID() (string, error)      { return "", errNoBootClock }
func (systemClock) Boot() (time.Duration, error) { return 0, errNoBootClock }
func (systemClock) Wall() time.Time              { return time.Now() }
