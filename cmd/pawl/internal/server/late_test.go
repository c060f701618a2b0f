package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/ledger"
)

// journal is a log that a test may read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// running is a server that runs until the test ends it.
type running struct {
	*Server
	t       *testing.T
	log     *journal
	signals chan os.Signal
	ran     chan error
	ended   bool
}

func start(t *testing.T, o Options) *running {
	t.Helper()
	r := &running{t: t, log: &journal{}, signals: make(chan os.Signal, 4), ran: make(chan error, 1)}
	o.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(r.log, t.Output()), nil))
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	r.Server = s
	ctx, cancel := context.WithCancel(context.Background())
	go func() { r.ran <- s.Run(ctx, r.signals) }()
	t.Cleanup(func() {
		cancel()
		r.end()
	})
	return r
}

// stop stops in order, as an operator would.
func (r *running) stop() {
	r.t.Helper()
	r.signals <- os.Interrupt
	r.end()
}

// end waits for the end and closes what is left.
func (r *running) end() {
	r.t.Helper()
	if r.ended {
		return
	}
	r.ended = true
	if err := errors.Join(<-r.ran, r.Close()); err != nil {
		r.t.Errorf("the server did not end in order: %v", err)
	}
}

// await asks until the answer is yes: there is no event to wait for in a log or a ledger.
func (r *running) await(what string, yes func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !yes(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not in time: %s; the log:\n%s", what, r.log)
		}
	}
}

func (r *running) logged(text string) bool { return strings.Contains(r.log.String(), text) }

// claim claims a line of a file channel.
func (r *running) claim(channel, name string) (ledger.Key, error) {
	results, err := core.Claim(r.t.Context(), r.Ledger, ledger.Claim{
		RunID: "0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77", EffectKey: "file:" + name, Channel: channel, Payload: []byte(`{"name":"` + name + `"}`),
	})
	if err != nil {
		return ledger.Key{}, err
	}
	r.Engine.Wake(channel)
	return results[0].Key, nil
}

func (r *running) committed(channel, name string) ledger.Intent {
	r.t.Helper()
	k, err := r.claim(channel, name)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	i, err := r.Engine.Wait(ctx, k)
	if err != nil || i.State != ledger.StateCommitted {
		r.t.Fatalf("%s is %s (%v)", name, i.Outcome(), err)
	}
	return i
}

const twoChannels = oneChannel + `
  file/late:
    adapter: {path: $DIR/late, sha256: $SHA, args: [adapter, serve, file]}
    config: {path: $DIR/late.jsonl}
    policy: {unknown: hold}
`

// program puts the running image, which is every bundled adapter, where it is looked for.
func program(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path+".half", image(t), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".half", path); err != nil {
		t.Fatal(err)
	}
}

func image(t *testing.T) []byte {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func lateConfigured(t *testing.T) config.Config {
	t.Helper()
	sum := sha256.Sum256(image(t))
	return configured(t, strings.ReplaceAll(twoChannels, "$SHA", hex.EncodeToString(sum[:])))
}

func TestAnAdapterThatCannotStartStopsNobodyAndJoinsLater(t *testing.T) {
	c := lateConfigured(t)
	dir := filepath.Dir(c.Data)
	program(t, filepath.Join(dir, "late"))
	first := start(t, Options{Config: c}) // the ledger knows both channels after it
	first.committed("file/late", "first")
	first.stop()
	if err := os.Remove(filepath.Join(dir, "late")); err != nil {
		t.Fatal(err)
	}
	r := start(t, Options{Config: c})
	r.committed("file/audit", "of another channel")
	waits, err := r.claim("file/late", "waits")
	if err != nil {
		t.Fatalf("a channel whose adapter is down takes no claim: %v", err)
	}
	if h, ok := r.Health("file/late"); !ok || h.Ready || !strings.Contains(h.Reason, "late") || h.Instance != r.Engine.Instance() {
		t.Errorf("its health is %+v", h)
	}
	if h, ok := r.Health("file/audit"); !ok || !h.Ready || h.Reason != "" || h.Restarts != 0 {
		t.Errorf("the other one's health is %+v", h)
	}
	answer := httptest.NewRecorder()
	r.readyz().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if text := answer.Body.String(); answer.Code != http.StatusOK || !strings.Contains(text, `"channel":"file/late","status":"degraded"`) {
		t.Errorf("/readyz answers %d: %s", answer.Code, text)
	}
	if i, _, err := r.Ledger.Intent(t.Context(), waits); err != nil || i.Starts != 0 {
		t.Errorf("what waits has %d starts (%v)", i.Starts, err)
	}
	program(t, filepath.Join(dir, "late"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if i, err := r.Engine.Wait(ctx, waits); err != nil || i.State != ledger.StateCommitted || i.Starts != 1 {
		t.Errorf("what waited is %s after %d starts (%v)", i.Outcome(), i.Starts, err)
	}
	if h := r.Channels()["file/late"]; !h.Ready || h.Restarts == 0 {
		t.Errorf("afterwards its health is %+v", h)
	}
	if !r.logged(EventNotStarted) || !r.logged(EventJoined) {
		t.Errorf("the log says nothing of it:\n%s", r.log)
	}
}

func TestAReasonHoldsNoSecret(t *testing.T) {
	c := configured(t, oneChannel+`
  mail/shop:
    adapter: smtp
    config: {host: h, username: u, password: hunter2, from: not an address}
    policy: {unknown: hold}
`)
	r := start(t, Options{Config: c})
	r.committed("file/audit", "of another channel")
	h, _ := r.Health("mail/shop")
	if h.Ready || !strings.Contains(h.Reason, "from") || strings.Contains(h.Reason, "hunter2") || strings.Contains(h.Reason, "\n") {
		t.Errorf("its health is %+v", h)
	}
	if r.logged("hunter2") {
		t.Error("the log holds the password")
	}
}

func TestAChannelWhosePolicyTurnsOutWrongIsNotTriedAgain(t *testing.T) {
	c := lateConfigured(t)
	late := c.Channels["file/late"]
	late.Policy.SendTimeout = 2 * time.Minute // more than the fence: found out when the adapter's sheet is there
	c.Channels["file/late"] = late
	r := start(t, Options{Config: c})
	program(t, filepath.Join(filepath.Dir(c.Data), "late"))
	r.await("it is given up", func() bool { return r.logged("never: change the configuration") })
	if h, _ := r.Health("file/late"); h.Ready || !strings.Contains(h.Reason, "fence_ttl") {
		t.Errorf("its health is %+v", h)
	}
}

func TestACommandThatOnlyAsksNeedsEveryAdapter(t *testing.T) {
	c := lateConfigured(t)
	_, err := Start(t.Context(), Options{Config: c, Strict: true, Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !isAdapter(err) {
		t.Errorf("err is %v", err)
	}
}
