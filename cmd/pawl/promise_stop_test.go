package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlworks/pawl/conformance/world/mailbox"
	"github.com/pawlworks/pawl/ledger"
)

// nothingLeft requires that the engine's process, its adapters and their sockets are gone.
func (e *engine) nothingLeft() {
	e.s.t.Helper()
	e.s.awaitNobody()
	if dirs := e.socketDirs(); len(dirs) > 0 {
		e.s.t.Errorf("%s left launch directories: %v", e.name, dirs)
	}
}

// awaitLogged waits for a line of the engine's log.
func (e *engine) awaitLogged(text string, times int) {
	e.s.t.Helper()
	e.s.eventually(fmt.Sprintf("%s logs %s %d times", e.name, text, times), func() error {
		raw, err := os.ReadFile(e.log)
		if err == nil && strings.Count(string(raw), text) < times {
			err = fmt.Errorf("it has %d times", strings.Count(string(raw), text))
		}
		return err
	})
}

// unhurried leaves a slow machine all the time between fence and stamp: a fence that is too short by then is a start for nothing.
func unhurried(policy map[string]any) { policy["send_timeout"], policy["fence_ttl"] = "8s", "30s" }

func TestAStopInOrderFinishesWhatIsUnderWayAndBurnsNothing(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, time.Minute)
			s := newMailScene(t, backend, o, time.Second)
			unhurried(s.policy)
			s.policy["concurrency"] = 1
			hold := make(chan struct{})
			letGo := sync.OnceFunc(func() { close(hold) })
			defer letGo()
			o.box.Inject(mailbox.Fault{Phase: mailbox.PhaseDot, Hold: hold})
			e := s.engine("e1", nil)
			first := s.claimMail("first")
			o.awaitPhase(mailbox.PhaseDot)
			later := []ledger.Key{s.claimMail("second"), s.claimMail("third")}
			e.signal(syscall.SIGTERM)
			e.awaitLogged("engine.stopping", 1)
			letGo()
			if code := e.awaitExit(); code != 0 {
				t.Errorf("a stop in order ended with code %d", code)
			}
			e.nothingLeft()
			if i := s.await(first, "is there", func(ledger.Intent) bool { return true }); !committed(i) || i.Established != ledger.BySend || i.Starts != 1 || i.Attempts != 1 {
				t.Errorf("what was under way is %s, established %q, starts %d, attempts %d", i.State, i.Established, i.Starts, i.Attempts)
			}
			for _, k := range later {
				if i := s.await(k, "is there", func(ledger.Intent) bool { return true }); i.State != ledger.StateIntent || i.Attempts != 0 {
					t.Errorf("what waited is %s after %d starts, %d attempts", i.State, i.Starts, i.Attempts)
				}
			}
			e.start()
			for _, k := range append(later, first) {
				if i := s.await(k, "is committed", committed); i.Attempts != 1 || i.Starts != 1 {
					t.Errorf("committed after %d starts, %d attempts", i.Starts, i.Attempts)
				}
				s.verifyReceipt(k)
			}
			e.awaitUp()
			e.stopInOrder()
			for _, subject := range []string{"first", "second", "third"} {
				o.oneMail(subject)
			}
		})
	}
}

func TestAStopUnderLoadBurnsNothing(t *testing.T) {
	const stops, all = 4, 200
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			s := newFileScene(t, backend, "")
			unhurried(s.policy)
			e := s.engine("e1", nil)
			keys := s.claimLines(0, all)
			for n := range stops {
				s.awaitStats("the work goes on", func(st ledger.Stats) bool { return st.Committed >= n*all/(stops+1)+5 })
				e.stopInOrder()
				e.nothingLeft()
				stats, err := s.ledger.Stats(s.ctx)
				if err != nil || stats.Dispatched+stats.Held+stats.Accepted > 0 {
					t.Errorf("after a stop in order the ledger counts %+v, %v", stats, err)
				}
				e.start()
			}
			s.awaitStats("all is committed", func(st ledger.Stats) bool { return st.Committed == all })
			s.eachLineOnce(all)
			for _, k := range keys {
				if i := s.await(k, "is committed", committed); i.Attempts != 1 || i.Starts != 1 {
					t.Errorf("committed after %d starts, %d attempts", i.Starts, i.Attempts)
				}
			}
		})
	}
}

func TestASecondSignalEndsTheEngineAtOnceAndWhatWasUnderWayIsFoundOut(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, time.Minute)
			s := newMailScene(t, backend, o, 30*time.Second)
			s.times["stop_grace"] = "10m"
			s.policy["send_timeout"], s.policy["fence_ttl"] = "5m", "10m"
			hold := make(chan struct{})
			letGo := sync.OnceFunc(func() { close(hold) })
			defer letGo()
			o.box.Inject(mailbox.Fault{Phase: mailbox.PhaseDot, Hold: hold})
			e := s.engine("e1", nil)
			k := s.claimMail("cut")
			o.awaitPhase(mailbox.PhaseDot)
			e.signal(syscall.SIGTERM)
			e.awaitLogged("engine.stopping", 1)
			e.signal(syscall.SIGTERM)
			if code := e.awaitExit(); code == 0 {
				t.Error("a stop that cut a send ended with code 0")
			}
			e.nothingLeft()
			i := s.await(k, "is there", func(ledger.Intent) bool { return true })
			if i.State != ledger.StateDispatched || !i.InDoubt() {
				t.Errorf("what was cut is %s, in doubt %v", i.State, i.InDoubt())
			}
			letGo() // the server takes it after all
			e.start()
			i = s.await(k, "is committed", committed)
			if i.Attempts != 1 || i.Established != ledger.ByProbe {
				t.Errorf("committed after %d attempts, established %q", i.Attempts, i.Established)
			}
			o.awaitIdle(s)
			o.oneMail("cut")
			s.verifyReceipt(k)
		})
	}
}

func TestNoAdapterOutlivesItsEngineHoweverThatEnded(t *testing.T) {
	for name, end := range map[string]func(e *engine){
		"stopped":                            func(e *engine) { e.stopInOrder() },
		"interrupted":                        func(e *engine) { e.signal(syscall.SIGINT); e.awaitExit() },
		"killed":                             func(e *engine) { e.signal(syscall.SIGKILL); e.awaitExit() },
		"aborted":                            func(e *engine) { e.signal(syscall.SIGABRT); e.awaitExit() },
		"hung up":                            func(e *engine) { e.signal(syscall.SIGHUP); e.awaitExit() },
		"killed while its adapter is frozen": func(e *engine) { e.s.freeze(e.theAdapter()); e.signal(syscall.SIGKILL); e.awaitExit() },
		"stopped while its adapter is frozen": func(e *engine) {
			e.s.freeze(e.theAdapter())
			e.signal(syscall.SIGTERM)
			e.awaitExit()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFileScene(t, "sqlite", "")
			e := s.engine("e1", nil)
			e.theAdapter()
			end(e)
			s.awaitNobody()
			// Whoever could not tidy up is tidied up after.
			e.start()
			e.awaitUp()
			e.stopInOrder()
			e.nothingLeft()
		})
	}
}

func TestAnEngineThatRestartsItsAdapterLeaksNothingAndShowsItNothing(t *testing.T) {
	t.Parallel()
	s := newFileScene(t, "sqlite", "")
	e := s.engine("e1", nil)
	s.claimLines(0, 20)
	s.awaitStats("all is committed", func(st ledger.Stats) bool { return st.Committed == 20 })
	before := e.files()
	for n := range 3 { // below the limit of the breaker
		old := e.theAdapter()
		if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		e.awaitLogged(`"adapter is ready"`, n+2)
		s.claimLines(20*(n+1), 20*(n+2))
		s.awaitStats("all is committed", func(st ledger.Stats) bool { return st.Committed == 20*(n+2) })
	}
	s.eventually("the engine has closed what belonged to the dead", func() error {
		if now := e.files(); now > before {
			return fmt.Errorf("%d descriptors are open, %d were", now, before)
		}
		if dirs := e.socketDirs(); len(dirs) != 1 {
			return fmt.Errorf("launch directories: %v", dirs)
		}
		return nil
	})
	adapter := e.theAdapter()
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", adapter))
	if err != nil || len(open) == 0 {
		t.Fatalf("no descriptors of the adapter: %v", err)
	}
	for _, path := range open {
		target, err := os.Readlink(path)
		if err == nil && (strings.Contains(target, "ledger.db") || strings.Contains(target, ".pem")) {
			t.Errorf("the adapter holds %s", target)
		}
	}
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", adapter))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(environment), "PATH=") {
		t.Errorf("the adapter sees the engine's environment: %q", environment)
	}
	s.eachLineOnce(80)
}
