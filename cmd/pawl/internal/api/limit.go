package api

import (
	"math"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// maxLimited bounds how many callers are counted at once.
const maxLimited = 16_384

// limits counts requests of each caller.
type limits struct {
	rate  rate.Limit
	burst int

	mu      sync.Mutex
	callers map[string]*rate.Limiter
}

func newLimits(perSecond float64, burst int) *limits {
	return &limits{rate: rate.Limit(perSecond), burst: burst, callers: map[string]*rate.Limiter{}}
}

// take counts one request of the caller, or says how long to wait.
func (l *limits) take(caller string, now time.Time) *pawlclient.Problem {
	l.mu.Lock()
	own := l.callers[caller]
	if own == nil {
		if len(l.callers) >= maxLimited {
			l.drop(now)
		}
		own = rate.NewLimiter(l.rate, l.burst)
		l.callers[caller] = own
	}
	l.mu.Unlock()
	r := own.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	r.CancelAt(now)
	p := newProblem(pawlclient.CodeRateLimited, "more than %g requests a second; ask again after the time in Retry-After", float64(l.rate))
	p.RetryAfter = max(1, int(math.Ceil(wait.Seconds())))
	return p
}

// drop forgets callers that were silent for long enough to have their whole burst again, or all, if there are no such.
func (l *limits) drop(now time.Time) {
	for name, own := range l.callers {
		if own.TokensAt(now) >= float64(l.burst) {
			delete(l.callers, name)
		}
	}
	if len(l.callers) >= maxLimited {
		clear(l.callers)
	}
}

// addressOf is the caller of a request without a token: its address, or the network of one that has a whole network to choose from.
func addressOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return "address " + remote
	}
	ip := at.Addr().Unmap()
	if ip.Is4() {
		return "address " + ip.String()
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return "address " + ip.String()
	}
	return "network " + network.String()
}
