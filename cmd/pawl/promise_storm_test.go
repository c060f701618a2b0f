package main_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/pawlworks/pawl/ledger"
)

// torture is the variable that makes storms last: 20,000 intents and 44 kills instead of 1,000 and 8.
const torture = "PAWL_TEST_TORTURE"

// Eight engines on one Postgres are killed at random, with and without their adapters, and started again.
func TestEightEnginesKilledAtRandomMakeEachEffectOnce(t *testing.T) {
	intents, kills, fleet := 1000, 8, 8
	if os.Getenv(torture) != "" {
		intents, kills = 20_000, 44
	}
	s := newFileScene(t, "postgres", "")
	s.policy["concurrency"] = 4
	engines := make([]*engine, fleet)
	for n := range engines {
		engines[n] = s.newEngine(fmt.Sprintf("e%d", n+1), s.url, nil)
		engines[n].start()
	}
	for _, e := range engines {
		e.awaitUp()
	}
	began := time.Now()
	for n := 0; n < intents; n += 500 {
		s.claimLines(n, min(n+500, intents))
	}
	seed := uint64(began.UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for n := range kills {
		// Spread over the whole run, at no particular moment.
		s.awaitStats("the work goes on", func(st ledger.Stats) bool { return st.Committed >= n*intents/(kills+1) })
		time.Sleep(rand.N(20 * time.Millisecond))
		e := engines[random.IntN(fleet)]
		e.kill(random.IntN(2) == 0)
		e.start()
	}
	s.awaitStats("all is committed", func(st ledger.Stats) bool { return st.Committed == intents })
	took := time.Since(began)
	t.Logf("%d effects, %d kills, %s: %.0f a second", intents, kills, took.Round(time.Millisecond), float64(intents)/took.Seconds())
	s.eachLineOnce(intents)
}
