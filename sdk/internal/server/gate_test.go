package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/internal/wire"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

// ground is a Ground that the test moves.
type ground struct {
	gone       atomic.Bool
	boot, wall atomic.Int64
	records    atomic.Int64
	record     func() error
}

func (g *ground) Ground() Ground {
	return Ground{
		EngineGone: g.gone.Load,
		Record: func(string) error {
			if g.record != nil {
				if err := g.record(); err != nil {
					return err
				}
			}
			g.records.Add(1)
			return nil
		},
		Now: func() (int64, int64) { return g.boot.Load(), g.wall.Load() },
	}
}

// scripted is a channel whose Send the test writes.
type scripted struct {
	channel.Channel
	send  func(context.Context, channel.Attempt) (channel.Outcome, error)
	probe func() channel.Finding
	token func() (channel.Token, error)
}

func (s scripted) Send(ctx context.Context, a channel.Attempt) (channel.Outcome, error) {
	return s.send(ctx, a)
}
func (s scripted) Probe(context.Context, channel.Attempt) (channel.Finding, error) {
	return s.probe(), nil
}
func (s scripted) IdempotencyToken(context.Context, channel.TokenRequest) (channel.Token, error) {
	return s.token()
}

func configured(t *testing.T, g *ground, begin bool, ch channel.Channel) *Server {
	t.Helper()
	s := New(Config{
		Sheet: channel.Sheet{Kind: "toy", Begin: begin}, SDKVersion: "test", Logger: slog.New(slog.DiscardHandler), Ground: g.Ground(),
		New: func(context.Context, json.RawMessage) (channel.Channel, error) { return ch, nil },
	})
	if _, err := s.configure(nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

const deadline = 1000

func send(t *testing.T, ctx context.Context, s *Server) *adapterv1.SendReply {
	t.Helper()
	reply, err := calls{server: s}.Send(ctx, &adapterv1.SendRequest{
		Call: &adapterv1.Call{Id: wire.NewCallID(), NotAfterBootNs: deadline, NotAfterWallNs: deadline},
	})
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// answer names what a reply says.
func answer(r *adapterv1.SendReply) string {
	if o := r.GetOutcome(); o != nil {
		return o.GetKind().String()
	}
	switch r.GetFailure().GetKind() {
	case adapterv1.FailureKind_FAILURE_KIND_NOT_SENT:
		return "not sent"
	case adapterv1.FailureKind_FAILURE_KIND_REJECTED:
		return "rejected"
	}
	return "ambiguous"
}

func TestBeginRefuses(t *testing.T) {
	for _, row := range []struct {
		name    string
		before  func(g *ground, cancel context.CancelFunc)
		during  func(g *ground, cancel context.CancelFunc) error
		records int64
	}{
		{name: "when the engine is gone", before: func(g *ground, _ context.CancelFunc) { g.gone.Store(true) }},
		{name: "at the not-after on the boot-time clock", before: func(g *ground, _ context.CancelFunc) { g.boot.Store(deadline) }},
		{name: "at the not-after on the wall clock", before: func(g *ground, _ context.CancelFunc) { g.wall.Store(deadline) }},
		{name: "when the call was given up", before: func(_ *ground, cancel context.CancelFunc) { cancel() }},
		{name: "when the record cannot be written", during: func(*ground, context.CancelFunc) error { return errors.New("pipe full") }},
		{name: "when the engine went while it wrote", records: 1, during: func(g *ground, _ context.CancelFunc) error { g.gone.Store(true); return nil }},
		{name: "when the not-after passed while it wrote", records: 1, during: func(g *ground, _ context.CancelFunc) error { g.boot.Store(deadline); return nil }},
		{name: "when the call was given up while it wrote", records: 1, during: func(_ *ground, cancel context.CancelFunc) error { cancel(); return nil }},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			g := &ground{}
			if row.during != nil {
				g.record = func() error { return row.during(g, cancel) }
			}
			fired := false
			s := configured(t, g, false, scripted{send: func(_ context.Context, a channel.Attempt) (channel.Outcome, error) {
				if row.before != nil {
					row.before(g, cancel)
				}
				if err := a.Begin(); err != nil {
					if again := a.Begin(); again == nil {
						t.Error("a second try was let through")
					}
					return channel.Outcome{}, err
				}
				fired = true
				return channel.Delivered(channel.Evidence{}), nil
			}})
			reply := send(t, ctx, s)
			if answer(reply) != "not sent" || fired || g.records.Load() != row.records || reply.GetBegun() != (row.records > 0) {
				t.Errorf("answer %s, fired %t, %d records, begun %t", answer(reply), fired, g.records.Load(), reply.GetBegun())
			}
		})
	}
}

func TestBeginOfACallThatHasEndedIsRefused(t *testing.T) {
	g := &ground{}
	var kept channel.Attempt
	s := configured(t, g, true, scripted{send: func(_ context.Context, a channel.Attempt) (channel.Outcome, error) {
		kept = a
		return channel.Outcome{}, errors.New("nothing done")
	}})
	if got := answer(send(t, t.Context(), s)); got != "not sent" {
		t.Fatalf("got %s", got)
	}
	if err := kept.Begin(); !channel.ProvenNotSent(err) || g.records.Load() != 0 {
		t.Errorf("late begin: %v, %d records", err, g.records.Load())
	}
}

// A stray goroutine that races the end of its call either gets through before it, and the reply says so, or not at all.
func TestBeginAndTheEndOfTheCallExcludeEachOther(t *testing.T) {
	for range 200 {
		g := &ground{}
		var passed atomic.Bool
		var stray sync.WaitGroup
		s := configured(t, g, true, scripted{send: func(_ context.Context, a channel.Attempt) (channel.Outcome, error) {
			stray.Go(func() { passed.Store(a.Begin() == nil) })
			return channel.Outcome{}, errors.New("went away")
		}})
		reply := send(t, t.Context(), s)
		stray.Wait()
		want := "not sent"
		if passed.Load() {
			want = "ambiguous"
		}
		if answer(reply) != want || reply.GetBegun() != passed.Load() {
			t.Fatalf("answer %s, begun %t, passed %t", answer(reply), reply.GetBegun(), passed.Load())
		}
	}
}

func TestAnswerIsTheStrongestThatIsTrue(t *testing.T) {
	plain := errors.New("something went wrong")
	for _, row := range []struct {
		name        string
		declares    bool // the sheet declares Begin
		begins      int
		err         error
		panics      any
		outcome     channel.Outcome
		want        string
		wantNoBegin string // for a sheet that does not declare Begin, where it differs
	}{
		{name: "untyped before begin", err: plain, want: "not sent", wantNoBegin: "ambiguous"},
		{name: "untyped after begin", begins: 1, err: plain, want: "ambiguous"},
		{name: "panic before begin", panics: plain, want: "not sent", wantNoBegin: "ambiguous"},
		{name: "panic after begin", begins: 1, panics: "x", want: "ambiguous"},
		{name: "panic after begin with a typed value", begins: 1, panics: channel.NotSent(plain), want: "ambiguous"},
		{name: "ambiguous before begin", err: channel.Ambiguous("", plain), want: "ambiguous"},
		{name: "not sent after begin", begins: 1, err: channel.NotSent(plain), want: "not sent"},
		{name: "rejected after begin", begins: 1, err: channel.Rejected("550", plain), want: "rejected"},
		{name: "both ways", err: channel.NotSent(channel.Ambiguous("", plain)), want: "ambiguous"},
		{name: "twice, not sent", begins: 2, err: channel.NotSent(plain), want: "ambiguous"},
		{name: "twice, delivered", begins: 2, outcome: channel.Delivered(channel.Evidence{}), want: "OUTCOME_KIND_DELIVERED"},
		{name: "twice, successor wanted", begins: 2, outcome: channel.SuccessorWanted(""), want: "ambiguous"},
		{name: "zero outcome", want: "OUTCOME_KIND_AMBIGUOUS"},
		{name: "unknown outcome", outcome: channel.Outcome{Kind: 42}, want: "OUTCOME_KIND_AMBIGUOUS"},
	} {
		for _, declares := range []bool{true, false} {
			want := row.want
			if !declares && row.wantNoBegin != "" {
				want = row.wantNoBegin
			}
			s := configured(t, &ground{}, declares, scripted{send: func(_ context.Context, a channel.Attempt) (channel.Outcome, error) {
				for range row.begins {
					_ = a.Begin()
				}
				if row.panics != nil {
					panic(row.panics)
				}
				return row.outcome, row.err
			}})
			if got := answer(send(t, t.Context(), s)); got != want {
				t.Errorf("%s, sheet declares begin=%t: got %s, want %s", row.name, declares, got, want)
			}
		}
	}
}

func TestPanicsInProbeAndTokenBecomeAnswers(t *testing.T) {
	s := configured(t, &ground{}, true, scripted{
		probe: func() channel.Finding { panic("probe") }, token: func() (channel.Token, error) { panic("token") },
	})
	probed, err := calls{server: s}.Probe(t.Context(), &adapterv1.ProbeRequest{})
	if err != nil || probed.GetFinding().GetKind() != adapterv1.FindingKind_FINDING_KIND_UNKNOWN || !strings.Contains(probed.GetFinding().GetReason(), "panicked") {
		t.Errorf("probe: %v, %v", probed, err)
	}
	made, err := calls{server: s}.IdempotencyToken(t.Context(), &adapterv1.IdempotencyTokenRequest{})
	if err != nil || made.GetFailure() == nil || made.GetFailure().GetKind() != adapterv1.FailureKind_FAILURE_KIND_UNSPECIFIED {
		t.Errorf("token: %v, %v", made, err)
	}
}

func TestServerThatIsNotConfiguredOrDrainingSendsNothing(t *testing.T) {
	bare := New(Config{Logger: slog.New(slog.DiscardHandler)})
	if got := answer(send(t, t.Context(), bare)); got != "not sent" {
		t.Errorf("not configured: %s", got)
	}
	inside, leave := make(chan struct{}), make(chan struct{})
	s := configured(t, &ground{}, true, scripted{send: func(context.Context, channel.Attempt) (channel.Outcome, error) {
		close(inside)
		<-leave
		return channel.Delivered(channel.Evidence{}), nil
	}})
	first := make(chan string, 1)
	go func() { first <- answer(send(t, context.Background(), s)) }()
	<-inside
	drained := make(chan uint32, 1)
	go func() {
		reply, _ := life{server: s}.Drain(context.Background(), &adapterv1.DrainRequest{})
		drained <- reply.GetInFlight()
	}()
	for s.isDraining() == false {
		time.Sleep(time.Millisecond)
	}
	if got := answer(send(t, t.Context(), s)); got != "not sent" {
		t.Errorf("while draining: %s", got)
	}
	select {
	case <-drained:
		t.Error("drain did not wait for the send under way")
	default:
	}
	close(leave)
	if got := <-first; got != "OUTCOME_KIND_DELIVERED" {
		t.Errorf("the send under way: %s", got)
	}
	if left := <-drained; left != 0 {
		t.Errorf("%d sends left", left)
	}
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}
