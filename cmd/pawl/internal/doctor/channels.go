package doctor

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/cmd/pawl/internal/server"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/host"
)

// adapterTime bounds the start of one adapter.
const adapterTime = 30 * time.Second

// channels starts each adapter as the engine would, and holds its sheet against the policy.
func (d *doctor) channels(ctx context.Context, scratch string) {
	if len(d.Config.Channels) == 0 {
		if d.File != "" {
			d.fault("channels", "name at least one, and its adapter", "there is none")
		}
		return
	}
	trying := d.Config
	trying.Data = scratch
	for _, name := range d.Config.Names() {
		d.channel(ctx, trying, name)
	}
}

func (d *doctor) channel(ctx context.Context, trying config.Config, name string) {
	about := "channel " + name
	ctx, cancel := context.WithTimeout(ctx, adapterTime)
	defer cancel()
	a, err := server.LaunchAdapter(ctx, trying, name, d.Executable, d.Logger)
	if err != nil {
		d.fault(about, adviceOn(err), "its adapter does not start: %s", adapterText(err))
		if b, ok := server.FindBundled(d.Config.Channels[name].Adapter.Name); ok { // its times can be checked all the same
			d.policy(about, name, b.Adapter.Sheet, nowhere{})
		}
		return
	}
	d.policy(about, name, a.Sheet(), a)
	d.ok(about, "its adapter starts: %s %s, replay %s, probe %s, settle time %s, checksum %s", a.Sheet().Kind, a.Sheet().Version, a.Sheet().Replay,
		a.Sheet().Probe, a.Sheet().SettleTime, a.SHA256())
	closing, end := context.WithTimeout(context.WithoutCancel(ctx), adapterTime)
	defer end()
	if err := a.Close(closing); err != nil {
		d.warn(about, "see that it ends when it is told to", "its adapter does not end in order: %s", oneLine(err))
	}
}

// nowhere stands for an adapter that did not start, where only its sheet is looked at.
type nowhere struct{ channel.Channel }

// policy lets the engine check the sheet against the policy: it refuses before it touches anything, for want of a ledger.
func (d *doctor) policy(about, name string, sheet channel.Sheet, speaks channel.Channel) {
	o := d.Config.Engine.Options()
	o.Channels = []core.ChannelOptions{d.Config.Channels[name].Options(name, speaks, sheet)}
	_, err := core.New(context.Background(), o)
	faults := 0
	for _, line := range strings.Split(err.Error(), "\n") {
		line = strings.TrimPrefix(strings.TrimPrefix(line, "configuration: "), "channel "+name+": ")
		if line == "ledger: is required" {
			continue
		}
		faults++
		d.fault(about, "correct it under channels."+name+".policy, or under engine", "%s", line)
	}
	if faults > 0 {
		return
	}
	p := d.Config.Channels[name].Policy
	send, commit := cmp.Or(p.SendTimeout, core.DefaultSendTimeout), cmp.Or(p.CommitBound, core.DefaultCommitBound)
	margin, ttl := cmp.Or(p.Margin, core.DefaultMargin), cmp.Or(p.FenceTTL, core.DefaultFenceTTL)
	d.ok(about, "its times hold: send_timeout %s + commit_bound %s + margin %s = %s, less than fence_ttl %s", send, commit, margin, send+commit+margin, ttl)
	if sheet := d.Config.Channels[name].Policy.Sheet(sheet); p.Unknown == string(core.UnknownHold) && sheet.Probe == channel.ProbeNone && sheet.Replay == channel.ReplayNever {
		d.ok(about, "it cannot be asked and is not replay-safe: an effect in doubt waits for a person")
	}
}

// adapterText is an error without the channel's name in front.
func adapterText(err error) string {
	var adapter *server.AdapterError
	if errors.As(err, &adapter) {
		return oneLine(adapter.Err)
	}
	return oneLine(err)
}

func adviceOn(err error) string {
	var launch *host.LaunchError
	switch text := err.Error(); {
	case strings.Contains(text, "checksum"):
		return "if the program was replaced on purpose, set adapter.sha256 to the output of sha256sum; if not, find out who did"
	case errors.As(err, &launch) && launch.Phase == host.Configuring:
		return "correct what it names, under the channel's config or outside; pawl adapter describe NAME prints an example"
	case errors.As(err, &launch):
		return "run it by hand: pawl adapter describe; and look at its configuration"
	}
	return "correct its adapter in the configuration"
}
