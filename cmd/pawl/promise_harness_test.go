package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/cmd/pawl/internal/server"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
	"github.com/pawlworks/pawl/receipt"
)

// patience bounds every wait of these tests: far more than a slow machine needs.
const patience = 90 * time.Second

// issuerName is in every receipt of these tests.
const issuerName = "organism:promise:main"

// backends are the ledgers that the promise is tested on.
var backends = []string{"sqlite", "postgres"}

// scene is one ledger, one channel and the engines that a test lets run on it.
type scene struct {
	t        *testing.T
	ctx      context.Context
	dir      string // short: adapters' sockets live under it
	program  string // the command
	url      string // of the ledger, for the test itself
	ledger   ledger.Ledger
	trusted  *receipt.KeyRing
	channel  string
	adapter  any
	settings map[string]any // of the adapter
	policy   map[string]any
	times    map[string]any
	run      string
	mu       sync.Mutex
	engines  []*engine
}

// newScene makes a scene on a fresh ledger. At its end nothing of it may run any more.
func newScene(t *testing.T, backend, channel, adapter string, settings map[string]any) *scene {
	t.Helper()
	url := ""
	if backend == "postgres" {
		url = pgtest.Database(t)
	}
	return newSceneOn(t, url, channel, adapter, settings)
}

func newSceneOn(t *testing.T, url, channel, adapter string, settings map[string]any) *scene {
	t.Helper()
	if testing.Short() {
		t.Skip("engines, adapters and databases as processes take minutes")
	}
	dir, err := os.MkdirTemp("", "pp")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &scene{
		t: t, ctx: ctx, dir: dir, program: filepath.Join(dir, "pawl"), url: url, channel: channel, adapter: adapter, settings: settings,
		run: uuid.NewString(),
		policy: map[string]any{
			"unknown": "hold", "send_timeout": "2s", "commit_bound": "1s", "margin": "200ms", "fence_ttl": "4s", "probe_timeout": "2s",
			"backoff_first": "50ms", "backoff_max": "500ms", "probe_every": "200ms", "held_every": "1s", "start_ceiling": 1000, "attempt_ceiling": 1000,
		},
		times: map[string]any{
			"poll_every": "100ms", "heartbeat_every": "300ms", "heartbeat_timeout": "2s", "scan_every": "5s", "stop_grace": "10s", "clock_allowance": "500ms",
		},
	}
	if s.url == "" {
		s.url = "sqlite:" + filepath.Join(dir, "ledger.db")
	}
	t.Cleanup(func() {
		s.endAll()
		cancel()
		if s.ledger != nil {
			_ = s.ledger.Close()
		}
		s.awaitNobody()
		s.noRace()
		if t.Failed() {
			s.showLogs()
		}
		_ = os.RemoveAll(dir)
	})
	s.linkProgram()
	key, err := receipt.LoadOrCreateKey(filepath.Join(dir, "receipt.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if s.trusted, err = receipt.NewKeyRing(key.Public()); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(s.writeConfig("test", s.url, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Migrate(ctx, c); err != nil {
		t.Fatal(err)
	}
	if s.ledger, err = server.OpenLedger(ctx, c); err != nil {
		t.Fatal(err)
	}
	return s
}

// linkProgram gives the test binary the name under which it is the command.
func (s *scene) linkProgram() {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	if os.Link(self, s.program) == nil {
		return
	}
	from, err := os.Open(self) // another file system
	if err != nil {
		s.t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(s.program, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		s.t.Fatal(err)
	}
}

// writeConfig writes the configuration of one engine, as JSON, which is YAML.
func (s *scene) writeConfig(name, url string, change func(policy, times map[string]any)) string {
	s.t.Helper()
	return s.writeConfigWith(name, url, change, nil)
}

// writeConfigWith is writeConfig with more members.
func (s *scene) writeConfigWith(name, url string, change func(policy, times map[string]any), more map[string]any) string {
	s.t.Helper()
	policy, times := clone(s.policy), clone(s.times)
	if change != nil {
		change(policy, times)
	}
	home := filepath.Join(s.dir, name)
	whole := map[string]any{
		"ledger": map[string]any{"url": url}, "data": filepath.Join(home, "d"), "issuer": issuerName,
		"receipt_key": filepath.Join(s.dir, "receipt.pem"), "log": map[string]any{"level": "debug", "format": "json"},
		"engine": times,
		"channels": map[string]any{
			s.channel: map[string]any{"adapter": s.adapter, "config": s.settings, "policy": policy},
		},
	}
	maps.Copy(whole, more)
	raw, err := json.Marshal(whole)
	if err == nil {
		err = os.MkdirAll(home, 0o700)
	}
	path := filepath.Join(home, "pawl.yaml")
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return path
}

func clone(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// claim claims and returns the keys. The channel must be in the ledger: an engine has been up.
func (s *scene) claim(claims ...ledger.Claim) []ledger.Key {
	s.t.Helper()
	var keys []ledger.Key
	s.eventually("the claim is taken", func() error {
		results, err := core.Claim(s.ctx, s.ledger, claims...)
		keys = keys[:0]
		for _, r := range results {
			keys = append(keys, r.Key)
		}
		return err
	})
	return keys
}

// claimLines claims the effects from up to below to of a file channel.
func (s *scene) claimLines(from, to int) []ledger.Key {
	s.t.Helper()
	claims := make([]ledger.Claim, 0, to-from)
	for n := from; n < to; n++ {
		identity := map[string]any{"n": n}
		payload, err := json.Marshal(identity)
		if err != nil {
			s.t.Fatal(err)
		}
		key, err := canonical.Key("file", identity)
		if err != nil {
			s.t.Fatal(err)
		}
		claims = append(claims, ledger.Claim{RunID: s.run, EffectKey: key, Channel: s.channel, Payload: payload})
	}
	return s.claim(claims...)
}

// claimMail claims one mail.
func (s *scene) claimMail(subject string) ledger.Key {
	s.t.Helper()
	to, text := "reader@example.test", "Hello.\n"
	payload, err := json.Marshal(map[string]any{"to": to, "subject": subject, "text": text})
	if err != nil {
		s.t.Fatal(err)
	}
	key, err := canonical.MailKey([]string{to}, subject, text)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.claim(ledger.Claim{RunID: s.run, EffectKey: key, Channel: s.channel, Payload: payload})[0]
}

// eventually asks until there is no error: there is no event to wait for in another process's ledger.
func (s *scene) eventually(what string, ask func() error) {
	s.t.Helper()
	for deadline, pause := time.Now().Add(patience), 5*time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("not in %s: %s: %v", patience, what, err)
		}
		time.Sleep(pause)
	}
}

// await waits until the row of the intent is as wanted, and returns it.
func (s *scene) await(k ledger.Key, what string, wanted func(ledger.Intent) bool) ledger.Intent {
	s.t.Helper()
	var i ledger.Intent
	s.eventually("the intent "+what, func() (err error) {
		if i, _, err = s.ledger.Intent(s.ctx, k); err == nil && !wanted(i) {
			err = fmt.Errorf("it is %s, outcome %q, fence %d of %q, starts %d, attempts %d, probes %d, last error %q",
				i.State, i.Outcome(), i.FenceNumber, i.FenceOwner, i.Starts, i.Attempts, i.Probes, i.LastError)
		}
		return err
	})
	return i
}

func committed(i ledger.Intent) bool { return i.State == ledger.StateCommitted }

// awaitStats waits until the counters of the ledger are as wanted.
func (s *scene) awaitStats(what string, wanted func(ledger.Stats) bool) {
	s.t.Helper()
	s.eventually(what, func() error {
		stats, err := s.ledger.Stats(s.ctx)
		if err == nil && !wanted(stats) {
			err = fmt.Errorf("the ledger counts %+v", stats)
		}
		return err
	})
}

// verifyReceipt requires a committed intent to have a receipt that a stranger can check.
func (s *scene) verifyReceipt(k ledger.Key) {
	s.t.Helper()
	stored, err := s.ledger.ReceiptsOf(s.ctx, k)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range stored {
		if r.Outcome != receipt.Committed || r.Owed {
			continue
		}
		if v := receipt.Verify(r.Envelope, receipt.VerifyOptions{Keys: s.trusted, Issuer: issuerName}); !v.OK {
			s.t.Errorf("the receipt does not verify: %s", v)
		} else if v.Claims.Subject != k.EffectKey {
			s.t.Errorf("the receipt is about %q", v.Claims.Subject)
		}
		return
	}
	s.t.Errorf("a committed intent has no receipt for it: %+v", stored)
}

// lines counts the effects in the file of the channel: whole lines, by number.
func (s *scene) lines() map[int]int {
	s.t.Helper()
	counts := map[int]int{}
	f, err := os.Open(s.settings["path"].(string))
	if errors.Is(err, fs.ErrNotExist) {
		return counts
	}
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return counts // the end; a line without its end is no effect
		}
		var l struct {
			Token   string `json:"token"`
			Payload struct {
				N int `json:"n"`
			} `json:"payload"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			s.t.Fatalf("a line that is whole is not JSON: %v: %q", err, line)
		}
		if l.Token != "" { // the first line of the file has none
			counts[l.Payload.N]++
		}
	}
}

// eachLineOnce requires exactly the effects below count, once each.
func (s *scene) eachLineOnce(count int) {
	s.t.Helper()
	counts := s.lines()
	for n := range count {
		if counts[n] != 1 {
			s.t.Errorf("effect %d happened %d times", n, counts[n])
		}
		delete(counts, n)
	}
	if len(counts) > 0 {
		s.t.Errorf("effects that nobody wanted: %v", counts)
	}
}

// noRace requires that no engine's race detector had anything to say, where it has one.
func (s *scene) noRace() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.engines {
		if raw, err := os.ReadFile(e.log); err == nil && bytes.Contains(raw, []byte("DATA RACE")) {
			s.t.Errorf("%s has a data race", e.name)
		}
	}
}

func (s *scene) showLogs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.engines {
		raw, err := os.ReadFile(e.log)
		if err != nil {
			s.t.Logf("%s: %v", e.name, err)
			continue
		}
		lines := bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
		lines = lines[max(0, len(lines)-60):]
		s.t.Logf("the end of the log of %s:\n%s", e.name, bytes.Join(lines, []byte("\n")))
	}
}
