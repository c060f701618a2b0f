package boottime

import (
	"testing"
	"time"
)

func TestClockGoesForward(t *testing.T) {
	first := Now()
	time.Sleep(time.Millisecond)
	if second := Now(); second-first < int64(time.Millisecond) {
		t.Errorf("went from %d to %d in a millisecond", first, second)
	}
}

func TestDeadlineIsTheSameInstantOnBothClocks(t *testing.T) {
	at := time.Now().Add(time.Hour)
	d := At(at)
	left := time.Duration(d.Boot - Now())
	if d.Wall != at.UnixNano() || left > time.Hour || left < time.Hour-time.Minute {
		t.Errorf("wall %d, want %d; %s left on the boot-time clock, want an hour", d.Wall, at.UnixNano(), left)
	}
	wallOnly := At(at.Round(0)) // without a monotonic reading
	if diff := wallOnly.Boot - d.Boot; diff < -int64(time.Minute) || diff > int64(time.Minute) {
		t.Errorf("the two readings are %s apart", time.Duration(diff))
	}
}

func TestDeadlineHasPassedWhenEitherClockHasReachedIt(t *testing.T) {
	d := Deadline{Boot: 10, Wall: 20}
	for _, row := range []struct {
		boot, wall int64
		want       bool
	}{{9, 19, false}, {10, 0, true}, {0, 20, true}, {11, 21, true}} {
		if got := d.Passed(row.boot, row.wall); got != row.want {
			t.Errorf("at %d, %d: %t", row.boot, row.wall, got)
		}
	}
	if !At(time.Time{}).Passed(Now(), time.Now().UnixNano()) || !(Deadline{}).Passed(Now(), time.Now().UnixNano()) {
		t.Error("the zero deadline has not passed")
	}
	if !At(time.Now()).Passed(Now(), time.Now().UnixNano()) {
		t.Error("now has not passed")
	}
}
