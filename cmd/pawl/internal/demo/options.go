package demo

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Options of one demo.
type Options struct {
	Count    int           // effects to claim
	Kills    int           // kills to make on the way
	Seed     uint64        // of the schedule of kills
	Channel  string        // "mail" or "file"
	Ledger   string        // "" for SQLite in the demo's own directory, or a postgres:// URL
	SMTP     string        // host:port of another mail server; empty: the demo's own
	IMAP     string        // host:port of its IMAP server
	User     string        // of the IMAP server
	Password string        // of the IMAP server; never printed
	To       string        // recipients' domain at another mail server
	NoProbe  bool          // the adapter may not ask the outside world
	Serve    bool          // through pawl serve: claims over HTTP, counters scraped at the end
	JSON     bool          // one line of JSON at the end
	Keep     bool          // keep the demo's directory
	Timeout  time.Duration // for the whole run
}

// OptionError says which flags cannot be used, and why.
type OptionError struct{ Err error }

func (e *OptionError) Error() string { return strings.ReplaceAll(e.Err.Error(), "\n", "; ") }
func (e *OptionError) Unwrap() error { return e.Err }

func (o Options) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.Count < 1 || o.Count > 100_000 {
		fault("--n: must be between 1 and 100000, is %d", o.Count)
	}
	if o.Kills < 0 || o.Kills > o.Count {
		fault("--kills: must be between 0 and --n (%d), is %d", o.Count, o.Kills)
	}
	if o.Channel != "mail" && o.Channel != "file" {
		fault("--channel: %q is none of mail, file", o.Channel)
	}
	if (o.SMTP == "") != (o.IMAP == "") {
		fault("--smtp and --imap: another mail server needs both, to send and to count")
	}
	if o.SMTP != "" && o.Channel != "mail" {
		fault("--smtp: only with --channel mail")
	}
	if o.Timeout <= 0 {
		fault("--timeout: must be positive")
	}
	if err := errors.Join(faults...); err != nil {
		return &OptionError{err}
	}
	return nil
}
