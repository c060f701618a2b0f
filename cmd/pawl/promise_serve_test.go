package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// service is an engine with its HTTP API, on a port that stays its own through all its lives.
func (s *scene) service(name string, change func(policy, times map[string]any)) *engine {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	e := s.newEngine(name, s.url, change)
	e.verb, e.api = "serve", l.Addr().String()
	e.config = s.writeConfigWith(name, s.url, change, map[string]any{"api": map[string]any{"listen": e.api}})
	if err := l.Close(); err != nil {
		s.t.Fatal(err)
	}
	return e
}

// awaitReady waits until the service says that it is ready.
func (e *engine) awaitReady() {
	e.s.t.Helper()
	e.s.eventually(e.name+" is ready", func() error {
		if !e.running() {
			e.s.t.Fatalf("%s ended with code %d", e.name, e.code)
		}
		answer, err := http.Get("http://" + e.api + "/readyz")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", answer.Status)
		}
		return nil
	})
}

// fleet are replicas of one service, as a caller behind a load balancer sees them.
type fleet struct {
	s        *scene
	replicas []*engine
	clients  []*pawlclient.Client
	turn     atomic.Int64
}

func (s *scene) fleet(size int) *fleet {
	s.t.Helper()
	f := &fleet{s: s}
	for n := range size {
		e := s.service(fmt.Sprintf("r%d", n+1), nil)
		e.start()
		client, err := pawlclient.New(pawlclient.Options{URL: "http://" + e.api, Timeout: 10 * time.Second})
		if err != nil {
			s.t.Fatal(err)
		}
		f.replicas, f.clients = append(f.replicas, e), append(f.clients, client)
	}
	for _, e := range f.replicas {
		e.awaitReady()
	}
	return f
}

// claim claims one line of the file, at whichever replica answers, until one does.
func (f *fleet) claim(ctx context.Context, n int) (pawlclient.ClaimResult, error) {
	identity := map[string]any{"n": n}
	payload, err := json.Marshal(identity)
	if err != nil {
		return pawlclient.ClaimResult{}, err
	}
	key, err := canonical.Key("file", identity)
	if err != nil {
		return pawlclient.ClaimResult{}, err
	}
	for {
		// A try is short: the next replica is there.
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		r, err := f.clients[int(f.turn.Add(1))%len(f.clients)].Claim(try, pawlclient.Claim{
			RunID: f.s.run, EffectKey: key, Channel: f.s.channel, Payload: payload,
		})
		cancel()
		var refused *pawlclient.Problem
		if err == nil || ctx.Err() != nil || errors.As(err, &refused) && refused.Status < 500 {
			return r, err
		}
	}
}

// claimAll claims count lines by several callers at once, as fast as pace allows, and returns those that were acknowledged.
func (f *fleet) claimAll(ctx context.Context, count, callers int, pace time.Duration) []ledger.Key {
	acknowledged := make([]ledger.Key, count)
	var group sync.WaitGroup
	next := make(chan int)
	for range callers {
		group.Go(func() {
			for n := range next {
				r, err := f.claim(ctx, n)
				if err != nil {
					f.s.t.Errorf("claim %d: %v", n, err)
					continue
				}
				acknowledged[n] = ledger.Key{RunID: r.Intent.RunID, EffectKey: r.Intent.EffectKey}
			}
		})
	}
	tick := time.NewTicker(max(pace, time.Microsecond))
	defer tick.Stop()
	for n := range count {
		<-tick.C
		next <- n
	}
	close(next)
	group.Wait()
	return acknowledged
}

func TestThreeReplicasKilledAtRandomLoseNoClaimAndMakeEachEffectOnce(t *testing.T) {
	count, kills, lasts := 400, 10, patience
	if os.Getenv(torture) != "" {
		count, kills, lasts = 5000, 60, 10*time.Minute
	}
	s := newFileScene(t, "postgres", "")
	s.policy["concurrency"] = 16
	f := s.fleet(3)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	ctx, cancel := context.WithTimeout(s.ctx, lasts)
	defer cancel()
	began := time.Now()
	var killer sync.WaitGroup
	killer.Go(func() {
		for n := range kills {
			s.awaitStats("the work goes on", func(st ledger.Stats) bool { return st.Committed >= n*count/(kills+1) })
			time.Sleep(time.Duration(random.Int64N(int64(30 * time.Millisecond))))
			e := f.replicas[random.IntN(len(f.replicas))]
			e.kill(random.IntN(2) == 0)
			e.start()
		}
	})
	keys := f.claimAll(ctx, count, 8, 5*time.Millisecond)
	killer.Wait()
	s.awaitStats("all is committed", func(st ledger.Stats) bool { return st.Committed == count })
	t.Logf("%d claims, %d kills, %s", count, kills, time.Since(began).Round(time.Millisecond))
	for n, k := range keys {
		if i, _, err := s.ledger.Intent(s.ctx, k); err != nil || !committed(i) {
			t.Errorf("claim %d was acknowledged and is %s (%v)", n, i.Outcome(), err)
		}
	}
	s.eachLineOnce(count)
}

// A rolling restart under load: no start and no attempt is for nothing, and nothing waits for a fence to die.
func TestARollingRestartOfThreeReplicasBurnsNothingAndDelaysNothing(t *testing.T) {
	count, rounds, lasts := 300, 2, patience
	if os.Getenv(torture) != "" {
		count, rounds, lasts = 3000, 10, 10*time.Minute
	}
	fence := 30 * time.Second
	s := newFileScene(t, "postgres", "")
	unhurried(s.policy)
	s.policy["fence_ttl"] = fence.String()
	f := s.fleet(3)
	ctx, cancel := context.WithTimeout(s.ctx, lasts)
	defer cancel()
	var restarts sync.WaitGroup
	restarts.Go(func() {
		for n := range rounds * len(f.replicas) {
			s.awaitStats("the work goes on", func(st ledger.Stats) bool { return st.Committed >= n*count/(rounds*len(f.replicas)+1) })
			e := f.replicas[n%len(f.replicas)]
			e.signal(syscall.SIGTERM)
			if code := e.awaitExit(); code != 0 {
				t.Errorf("%s ended with code %d", e.name, code)
			}
			e.start()
			e.awaitReady()
		}
	})
	keys := f.claimAll(ctx, count, 6, 20*time.Millisecond)
	restarts.Wait()
	s.awaitStats("all is committed", func(st ledger.Stats) bool { return st.Committed == count })
	var longest time.Duration
	for n, k := range keys {
		i, _, err := s.ledger.Intent(s.ctx, k)
		if err != nil {
			t.Fatalf("claim %d: %v", n, err)
		}
		if i.Starts != 1 || i.Attempts != 1 || i.Established != ledger.BySend {
			t.Errorf("claim %d was committed by %q after %d starts, %d attempts", n, i.Established, i.Starts, i.Attempts)
		}
		longest = max(longest, i.CommittedAt.Sub(i.CreatedAt))
	}
	t.Logf("%d effects, %d restarts, the longest from claim to commit %s", count, rounds*len(f.replicas), longest)
	if longest > fence {
		t.Errorf("an effect took %s from claim to commit, more than a fence (%s)", longest, fence)
	}
	s.eachLineOnce(count)
}
