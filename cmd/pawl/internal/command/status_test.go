package command

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

func TestStatusNamesWhatNeedsAPersonAndWhatToType(t *testing.T) {
	up := pawlclient.Engine{Instance: "a-1", Age: 1}
	held := pawlclient.Intent{Key: pawlclient.Key{RunID: "r", EffectKey: "mail:it's"}, Channel: "mail/shop", HoldReason: "cannot be asked"}
	tests := []struct {
		name string
		view statusView
		held []pawlclient.Intent
		want []string // "what | command", each as a part
	}{
		{"nothing at all", statusView{}, nil, nil},
		{"all is well", statusView{Engines: []pawlclient.Engine{up}, Channels: []pawlclient.Channel{{Name: "a", Flag: "on", Waiting: 9, OldestWaiting: 3}}}, nil, nil},
		{"no engine", statusView{Channels: []pawlclient.Channel{{Name: "a", Flag: "on"}}}, nil, []string{"no engine runs | pawl serve"}},
		{"no engine, long stopped", statusView{Engines: []pawlclient.Engine{{Stopped: true, Age: 9}}, Stats: pawlclient.Stats{Waiting: 2}}, nil, []string{"(2 not ended) | pawl serve"}},
		{"an engine that fell silent", statusView{Engines: []pawlclient.Engine{up, {Instance: "b-2", Age: 600}}}, nil, []string{"engine b-2 fell silent 10m ago | pawl doctor"}},
		{"an engine that fell silent long ago", statusView{Engines: []pawlclient.Engine{up, {Instance: "b-2", Age: 6000}}}, nil, nil},
		{"paused", statusView{Engines: []pawlclient.Engine{up}, Channels: []pawlclient.Channel{{Name: "a b", Flag: "on", Paused: true, PauseReason: "535 refused", Waiting: 4, OldestWaiting: 1e6}}}, nil,
			[]string{"a b is paused (535 refused); 4 wait | pawl resume 'a b'"}},
		{"off is a choice", statusView{Engines: []pawlclient.Engine{up}, Channels: []pawlclient.Channel{{Name: "a", Flag: "paused", OldestWaiting: 1e6}}}, nil, nil},
		{"an adapter that is down", statusView{Engines: []pawlclient.Engine{up}, Channels: []pawlclient.Channel{{Name: "a", Flag: "on", Health: &pawlclient.ChannelHealth{Reason: "resting"}}}}, nil,
			[]string{"its adapter is not ready (resting) | pawl doctor"}},
		{"waiting too long", statusView{Engines: []pawlclient.Engine{up}, Channels: []pawlclient.Channel{{Name: "a", Flag: "on", Waiting: 3, OldestWaiting: 301}}}, nil,
			[]string{"the oldest of 3 has waited for 5m | pawl intents list --state intent --channel a"}},
		{"held", statusView{Engines: []pawlclient.Engine{up}, Stats: pawlclient.Stats{Held: 3}}, []pawlclient.Intent{held},
			[]string{`held on mail/shop: cannot be asked | pawl explain r 'mail:it'\''s'`, "2 more are held | pawl holds list"}},
		{"owed", statusView{Engines: []pawlclient.Engine{up}, Stats: pawlclient.Stats{OwedReceipts: 2}}, nil, []string{"2 receipts are owed | pawl doctor"}},
	}
	for _, tt := range tests {
		got := needs(tt.view, tt.held)
		if len(got) != len(tt.want) {
			t.Errorf("%s: %+v, want %d", tt.name, got, len(tt.want))
			continue
		}
		for n, want := range tt.want {
			what, command, _ := strings.Cut(want, " | ")
			if !strings.Contains(got[n].What, what) || got[n].Command != command {
				t.Errorf("%s: %+v, want %q", tt.name, got[n], want)
			}
		}
	}
}

// counting answers as an empty ledger does, and counts the looks.
type counting struct {
	pawlclient.API
	looks chan struct{}
	err   error
}

func (c counting) Stats(context.Context) (pawlclient.Stats, error) {
	c.looks <- struct{}{}
	return pawlclient.Stats{}, c.err
}
func (counting) Engines(context.Context) ([]pawlclient.Engine, error)   { return nil, nil }
func (counting) Channels(context.Context) ([]pawlclient.Channel, error) { return nil, nil }
func (counting) Epochs(context.Context) ([]pawlclient.Epoch, error)     { return nil, nil }

func TestWatchingGoesOnOverErrorsUntilItIsStopped(t *testing.T) {
	for _, failure := range []error{nil, &pawlclient.Problem{Code: pawlclient.CodeUnavailable, Title: "away"}} {
		ctx, cancel := context.WithCancel(t.Context())
		c, looks, ended := &cobra.Command{}, make(chan struct{}), make(chan error, 1)
		var printed bytes.Buffer
		c.SetOut(&printed)
		c.SetErr(io.Discard)
		go func() {
			ended <- watchStatus(ctx, c, session{API: counting{looks: looks, err: failure}}, output{}, time.Millisecond)
		}()
		for range 3 {
			<-looks
		}
		cancel()
		for stopped := false; !stopped; {
			select {
			case <-looks:
			case err := <-ended:
				if stopped = true; err != nil {
					t.Errorf("it ends with %v", err)
				}
			}
		}
		if failure == nil && strings.Count(printed.String(), "Nothing needs a person.") < 2 {
			t.Errorf("it printed %q", printed.String())
		}
	}
}
