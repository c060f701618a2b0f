package sqlite

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/pawlworks/pawl/ledger"
)

// TakeRate implements [ledger.Channels].
func (l *Ledger) TakeRate(ctx context.Context, name string, want int) (granted int, wait time.Duration, err error) {
	if want == 0 {
		return 0, 0, nil
	}
	err = l.writer.do(ctx, func(ctx context.Context, s *session) error {
		granted, wait, err = s.takeRate(ctx, name, want)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return granted, wait, nil
}

func (s *session) takeRate(ctx context.Context, name string, want int) (int, time.Duration, error) {
	var (
		perMinute int
		left      float64
		at        time.Time
	)
	found, err := s.find(ctx, "SELECT rate_per_minute, rate_left, rate_at FROM channels WHERE name = ?", []any{name}, &perMinute, &left, scanTime{&at})
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("read rate of channel %s: %w", name, err)
	case !found:
		return 0, 0, s.unknownChannel(ctx, name)
	case perMinute <= 0:
		return max(want, 0), 0, nil
	}
	now, err := s.now(ctx)
	if err != nil {
		return 0, 0, err
	}
	perSecond := float64(perMinute) / 60
	full := math.Max(1, perSecond)
	if at.IsZero() {
		left = full
	} else if passed := now.Sub(at); passed > 0 {
		left = math.Min(full, left+passed.Seconds()*perSecond)
	}
	granted := min(want, int(left))
	if want < 0 { // given back
		granted = max(want, int(math.Floor(left-full)))
	}
	if granted == 0 {
		return 0, ceilMicro((1 - left) / perSecond), nil
	}
	if _, err := s.exec(ctx, "UPDATE channels SET rate_left = ?, rate_at = ? WHERE name = ?", left-float64(granted), timeText(now), name); err != nil {
		return 0, 0, fmt.Errorf("take rate of channel %s: %w", name, err)
	}
	return max(granted, 0), 0, nil
}

// ceilMicro rounds up to the resolution of the clock, so that who waits that long finds something.
func ceilMicro(seconds float64) time.Duration {
	return time.Duration(math.Ceil(seconds*1e6)+1) * time.Microsecond
}

var _ ledger.Channels = (*Ledger)(nil)
