package main_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pawlworks/pawl/adapters/file"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk"
)

// frailAdapter as first argument makes the test binary the file adapter, which ends at once while the file named next exists,
// and after a moment while the one after that exists.
const frailAdapter = "serve-frail-adapter"

// frailLife is how long a fragile adapter lives.
const frailLife = 400 * time.Millisecond

func serveFrail(args []string) int {
	exists := func(path string) bool { _, err := os.Stat(path); return err == nil }
	if exists(args[0]) {
		fmt.Fprintln(os.Stderr, "this adapter is broken")
		return 3
	}
	if exists(args[1]) {
		time.AfterFunc(frailLife, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	}
	return sdk.Serve(file.Adapter(), nil)
}

// program is a third party's adapter, pinned: frail if its files say so.
type program struct {
	s               *scene
	broken, fragile string
}

// newProgramScene makes a scene whose adapter is a program of its own.
func newProgramScene(t *testing.T, backend string) *program {
	t.Helper()
	s := newFileScene(t, backend, "")
	p := &program{s: s, broken: filepath.Join(s.dir, "broken"), fragile: filepath.Join(s.dir, "fragile")}
	raw, err := os.ReadFile(s.program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.dir, "adapter")
	if err := os.WriteFile(path, raw, 0o700); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	s.adapter = map[string]any{
		"path": path, "sha256": hex.EncodeToString(sum[:]), "args": []string{frailAdapter, p.broken, p.fragile}, "begin_proven": true,
		"quarantine_time": "2s",
	}
	return p
}

func (p *program) set(path string) {
	p.s.t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		p.s.t.Fatal(err)
	}
}

func (p *program) clear(path string) {
	p.s.t.Helper()
	if err := os.Remove(path); err != nil {
		p.s.t.Fatal(err)
	}
}

func TestWhileAnAdapterCannotStartIntentsWaitAndAreSentOnceItCan(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			p := newProgramScene(t, backend)
			s := p.s
			e := s.engine("e1", nil)
			s.claimLines(0, 10)
			s.awaitStats("the first are committed", func(st ledger.Stats) bool { return st.Committed == 10 })

			p.set(p.broken)
			if err := syscall.Kill(e.theAdapter(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			e.awaitLogged("adapter will be started again", 1)
			waiting := s.claimLines(10, 30)
			e.awaitLogged(`"state":"quarantined"`, 2) // the breaker has opened, and again after a rest
			s.awaitBeats([]*engine{e})
			for _, k := range waiting {
				if i := s.await(k, "is there", func(ledger.Intent) bool { return true }); i.State != ledger.StateIntent || i.Starts != 0 || i.Attempts != 0 {
					t.Errorf("what waits for its adapter is %s after %d starts, %d attempts", i.State, i.Starts, i.Attempts)
				}
			}
			row, err := s.ledger.ChannelRow(s.ctx, s.channel)
			if err != nil || row.Paused {
				t.Errorf("the channel waits for a person: %+v, %v", row, err)
			}

			p.clear(p.broken)
			for _, k := range waiting {
				if i := s.await(k, "is committed", committed); i.Starts != 1 || i.Attempts != 1 {
					t.Errorf("committed after %d starts, %d attempts", i.Starts, i.Attempts)
				}
			}
			s.eachLineOnce(30)
			e.stopInOrder()
		})
	}
}

// The adapter dies again and again in the middle of its work, until the breaker opens; then it is mended.
func TestAnAdapterThatDiesInALoopMakesEachEffectOnce(t *testing.T) {
	const all = 300
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			p := newProgramScene(t, backend)
			s := p.s
			e := s.engine("e1", nil)
			p.set(p.fragile)
			if err := syscall.Kill(e.theAdapter(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			s.claimLines(0, all)
			e.awaitLogged(`"state":"quarantined"`, 1)
			if !e.running() {
				t.Fatal("the engine ended with its adapter")
			}
			p.clear(p.fragile)
			s.awaitStats("all is committed", func(st ledger.Stats) bool { return st.Committed == all })
			s.eachLineOnce(all)
			e.stopInOrder()
			e.nothingLeft()
		})
	}
}

// An engine whose adapter cannot start says so and takes nothing, until the adapter is mended.
func TestAnEngineWhoseAdapterCannotStartSaysSoAndTakesNothing(t *testing.T) {
	t.Parallel()
	p := newProgramScene(t, "sqlite")
	s := p.s
	e := s.engine("e1", nil)
	e.kill(true)
	keys := s.claimLines(0, 5)
	p.set(p.broken)
	e.start()
	e.awaitLogged(`"channel.not_started"`, 2)
	if !e.running() || !e.logged("this adapter is broken") {
		t.Error("the engine ended, or the adapter's own words are not in its log")
	}
	for _, k := range keys {
		if i := s.await(k, "is there", func(ledger.Intent) bool { return true }); i.State != ledger.StateIntent || i.Starts != 0 {
			t.Errorf("without its adapter the engine took an intent: %s, %d starts", i.State, i.Starts)
		}
	}
	p.clear(p.broken)
	s.awaitStats("all is committed", func(st ledger.Stats) bool { return st.Committed == 5 })
	s.eachLineOnce(5)
}
