package sqlite_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger/sqlite"
)

func withClock(c *sqlite.FakeClock) func(*sqlite.Options) {
	return func(o *sqlite.Options) { *o = sqlite.WithClock(*o, c) }
}

func now(t *testing.T, l *sqlite.Ledger) time.Time {
	t.Helper()
	at, err := l.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// near is how long a test may take between two readings of a clock that it believes to stand nearly still.
const near = 30 * time.Second

func TestSettingTheWallClockEndsNoLease(t *testing.T) {
	for _, by := range []time.Duration{-10 * 365 * 24 * time.Hour, 10 * 365 * 24 * time.Hour} {
		clock := sqlite.NewFakeClock()
		path := newPath(t)
		l := openPath(t, path, withClock(clock))
		run, _, err := l.CreateRun(t.Context(), fence.NewRun{})
		if err != nil {
			t.Fatal(err)
		}
		lease, err := l.Acquire(t.Context(), run.ID, fence.AcquireOptions{Owner: "worker", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		clock.SetWall(by)
		if err := l.VerifyLease(t.Context(), lease); err != nil {
			t.Errorf("after the wall clock was set by %s: %v", by, err)
		}
		other := openPath(t, path, withClock(clock)) // another process of this boot
		if d := now(t, other).Sub(now(t, l)).Abs(); d > near {
			t.Errorf("a process that opened after the wall clock was set by %s is %s off", by, d)
		}
		clock.Advance(2 * time.Hour)
		wants(t, other.VerifyLease(t.Context(), lease), fence.ErrLost)
	}
}

func TestANewBootNeverBeginsBeforeAStoredTime(t *testing.T) {
	clock := sqlite.NewFakeClock()
	path := newPath(t)
	l := openPath(t, path, withClock(clock))
	putChannel(t, l, "mail")
	clock.Advance(48 * time.Hour)
	i := claimAll(t, l, newClaim(uuid.NewString()))[0].Intent
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	clock.SetWall(-24 * 365 * time.Hour) // a host without a battery, before it has asked for the time
	clock.Reboot("boot-2")
	after := openPath(t, path, withClock(clock))
	if at := now(t, after); !at.After(i.CreatedAt) {
		t.Errorf("after the boot it is %s, and an intent was claimed at %s", at, i.CreatedAt)
	} else if at.Sub(i.CreatedAt) > near {
		t.Errorf("after the boot it is %s, far after the greatest time stored, %s", at, i.CreatedAt)
	}
}

func TestANewBootTakesTheWallClock(t *testing.T) {
	clock := sqlite.NewFakeClock()
	path := newPath(t)
	if err := openPath(t, path, withClock(clock)).Close(); err != nil {
		t.Fatal(err)
	}
	clock.SetWall(72 * time.Hour) // what the host was down for
	clock.Reboot("boot-2")
	l := openPath(t, path, withClock(clock))
	if d := now(t, l).Sub(clock.Wall()).Abs(); d > near {
		t.Errorf("after the boot the ledger is %s off the wall clock", d)
	}
}

func TestTimesAreStoredAsTextThatSorts(t *testing.T) {
	path := newPath(t)
	l := openPath(t, path)
	putChannel(t, l, "mail")
	c := newClaim(uuid.NewString())
	c.DueAt = time.Date(2031, 5, 6, 7, 8, 9, 0, time.FixedZone("east", 2*3600)) // whole seconds: the digits must be there all the same
	k := claimAll(t, l, c)[0].Key
	var due string
	err := openPlain(t, path).QueryRow("SELECT due_at FROM effect_intents WHERE effect_key = ?", k.EffectKey).Scan(&due)
	if err != nil || due != "2031-05-06T05:08:09.000000Z" {
		t.Errorf("due_at is stored as %q (%v)", due, err)
	}
	i, _, err := l.Intent(t.Context(), k)
	if err != nil || !i.DueAt.Equal(c.DueAt) {
		t.Errorf("due_at is read as %s (%v), want %s", i.DueAt, err, c.DueAt)
	}
}
