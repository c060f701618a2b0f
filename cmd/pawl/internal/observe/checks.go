package observe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Loops is the check of /healthz: it fails if a loop of the engine has made no progress for longer than all its time-outs together, and
// names it. That the ledger or an adapter does not answer fails nothing: starting the process again would not mend it.
func Loops(e Engine) Check {
	return func(context.Context) (all []Result) {
		for _, l := range e.Pulse().Loops {
			r := Result{Name: "loop " + l.Name, Channel: l.Channel, Status: OK}
			if l.Stuck() {
				r.Status = Failed
				r.Reason = fmt.Sprintf("no progress for %s, at most %s is possible", l.Silent.Round(time.Second), l.Bound)
			}
			all = append(all, r)
		}
		if len(all) == 0 {
			all = append(all, Result{Name: "loops", Status: OK, Reason: "the engine does not run yet, or not any more"})
		}
		return all
	}
}

// Heartbeat fails if the engine does not run, is stopping, or if the ledger has not taken its heartbeat lately: three in a row are
// missing. A heartbeat is a write: a ledger that is read-only does not take it.
func Heartbeat(e Engine, every time.Duration) Check {
	return func(context.Context) []Result {
		p := e.Pulse()
		r := Result{Name: "heartbeat", Status: Failed}
		switch age := time.Since(p.LastBeat); {
		case p.Stopping:
			r.Reason = "the engine is stopping: it takes nothing more"
		case !p.Running || p.LastBeat.IsZero():
			r.Reason = "the engine does not run"
		case age > 3*every:
			r.Reason = fmt.Sprintf("the ledger took the last heartbeat %s ago", age.Round(100*time.Millisecond))
		default:
			r.Status = OK
		}
		return []Result{r}
	}
}

// Stopping fails when the channel is closed: the process ends soon, and should get no new work.
func Stopping(stopping <-chan struct{}) Check {
	return func(context.Context) []Result {
		select {
		case <-stopping:
			return []Result{{Name: "stopping", Status: Failed, Reason: "the process was asked to stop"}}
		default:
			return []Result{{Name: "stopping", Status: OK}}
		}
	}
}

// answerMemory is how long an answer of the ledger counts: whoever can reach the port may ask as often as they like.
const answerMemory = time.Second

// Answers fails if the ledger does not answer a small question in time. What it answers is in no result. However many ask at once, the
// ledger is asked once, and at most once a second.
func Answers(ask func(ctx context.Context) error) Check { return answers(ask, answerMemory) }

func answers(ask func(ctx context.Context) error, memory time.Duration) Check {
	var mu sync.Mutex
	var last error
	var at time.Time
	return func(context.Context) []Result {
		mu.Lock()
		defer mu.Unlock()
		if at.IsZero() || time.Since(at) >= memory {
			// Not the context of who asks: one that goes away must not be the answer to the others.
			ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
			defer cancel()
			last = ask(ctx)
			at = time.Now()
		}
		if last != nil {
			return []Result{{Name: "ledger", Status: Failed, Reason: "the ledger does not answer; the log says why"}}
		}
		return []Result{{Name: "ledger", Status: OK}}
	}
}

// Adapters degrades for each channel whose adapter takes no calls. It never fails, not even if all are down: claims are taken and kept, and
// whichever process has an adapter sends them. A replica taken out of use for its adapters would only take claims away from it.
func Adapters(read func() map[string]Adapter) Check {
	return func(context.Context) (results []Result) {
		all := read()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			r := Result{Name: "adapter", Channel: name, Status: OK}
			switch a := all[name]; {
			case a.Quarantined:
				r.Status, r.Reason = Degraded, "rests: it fell too often, or cannot be started; the log says why"
			case !a.Ready:
				r.Status, r.Reason = Degraded, "takes no calls now; it is started again"
			}
			results = append(results, r)
		}
		return results
	}
}
