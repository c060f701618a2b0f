package host

import (
	"math/rand/v2"
	"time"
)

const (
	backoffFirst   = 500 * time.Millisecond
	backoffLongest = 60 * time.Second
	// crashLimit crashes within crashWindow open the breaker.
	crashLimit  = 5
	crashWindow = 10 * time.Minute
)

// breaker counts crashes. It belongs to the supervisor's goroutine.
type breaker struct {
	crashes []time.Time
	random  func(time.Duration) time.Duration // in [0, n)
}

func newBreaker() *breaker { return &breaker{random: rand.N[time.Duration]} }

// crash counts one and reports whether another launch may be tried.
func (b *breaker) crash(now time.Time) bool {
	b.crashes = append(b.crashes, now)
	for len(b.crashes) > 0 && now.Sub(b.crashes[0]) >= crashWindow {
		b.crashes = b.crashes[1:]
	}
	return len(b.crashes) < crashLimit
}

// pause is how long to wait after the crash that was counted last: between half a second and a bound that doubles with
// each crash in the window, at random over the whole range, so that adapters that fell together do not rise together.
func (b *breaker) pause() time.Duration {
	bound := backoffLongest
	if n := len(b.crashes); n > 0 && n < 8 {
		bound = min(backoffLongest, backoffFirst<<n)
	}
	return backoffFirst + b.random(bound-backoffFirst+1)
}

// forgive forgets every crash.
func (b *breaker) forgive() { b.crashes = nil }
