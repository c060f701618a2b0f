package command

import (
	"testing"
	"time"
)

func TestADurationMayBeInDays(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{"90d": 90 * day, "0d": 0, "36h": 36 * time.Hour, "1h30m": 90 * time.Minute, "100000d": 100_000 * day} {
		var d inDays
		if err := d.Set(text); err != nil || time.Duration(d) != want {
			t.Errorf("%q is %s, %v", text, time.Duration(d), err)
		}
	}
	for _, text := range []string{"", "d", "90", "-1d", "1.5d", "100001d", "4294967296d", "two days"} {
		d := inDays(day)
		if err := d.Set(text); err == nil || time.Duration(d) != day {
			t.Errorf("%q is taken as %s", text, time.Duration(d))
		}
	}
}
