package command

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// maxDays bounds a flag in days: more does not fit a duration.
const maxDays = 100_000

// inDays is a duration that may be given in days: what people keep for weeks they do not count in hours.
type inDays time.Duration

func (d *inDays) Set(text string) error {
	if n, ok := strings.CutSuffix(text, "d"); ok {
		if whole, err := strconv.ParseUint(n, 10, 32); err == nil && whole <= maxDays {
			*d = inDays(time.Duration(whole) * 24 * time.Hour)
			return nil
		}
	}
	read, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("use days (90d) or a duration (36h)")
	}
	*d = inDays(read)
	return nil
}

func (d *inDays) String() string {
	if *d == 0 { // so that help names no default
		return ""
	}
	return time.Duration(*d).String()
}

func (*inDays) Type() string { return "duration" }
