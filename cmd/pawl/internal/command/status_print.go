package command

import (
	"fmt"
	"io"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

func printStatus(w io.Writer, v statusView) {
	running := 0
	for _, e := range v.Engines {
		if alive(e) {
			running++
		}
	}
	row(w, fmt.Sprintf("ledger   %s, epoch %d", v.Ledger, v.Epoch))
	row(w, fmt.Sprintf("engines  %d alive", running))
	row(w, fmt.Sprintf("effects  %d waiting, %d under way, %d accepted, %d held; %d committed, %d abandoned",
		v.Stats.Waiting, v.Stats.Dispatched, v.Stats.Accepted, v.Stats.Held, v.Stats.Committed, v.Stats.Abandoned))
	fmt.Fprintln(w)
	if running > 0 {
		row(w, "ENGINE", "VERSION", "UP", "LAST BEAT")
		for _, e := range v.Engines {
			if alive(e) {
				row(w, e.Instance, e.Version, age(e.LastSeen, e.StartedAt), ago(e.Age)+" ago")
			}
		}
		fmt.Fprintln(w)
	}
	row(w, "CHANNEL", "FLAG", "READY", "WAITING", "LONGEST", "UNDER WAY", "ACCEPTED", "HELD", "LONGEST", "PAUSED")
	for _, c := range v.Channels {
		paused := "no"
		if c.Paused {
			paused = orNone(c.PauseReason)
		}
		row(w, c.Name, c.Flag, ready(c), fmt.Sprint(c.Waiting), oldest(c.OldestWaiting), fmt.Sprint(c.Dispatched), fmt.Sprint(c.Accepted),
			fmt.Sprint(c.Held), oldest(c.OldestUnknown), paused)
	}
	fmt.Fprintln(w)
	if len(v.Attention) == 0 {
		row(w, "Nothing needs a person.")
		return
	}
	if len(v.Attention) == 1 {
		row(w, "1 thing needs a person:")
	} else {
		row(w, fmt.Sprintf("%d things need a person:", len(v.Attention)))
	}
	for _, a := range v.Attention {
		row(w, "  "+a.What)
		if a.Command != "" {
			row(w, "      "+a.Command)
		}
	}
}

// ready says what the answering process sees of the channel's adapter.
func ready(c pawlclient.Channel) string {
	if c.Health == nil {
		return "-"
	}
	return yes(c.Health.Ready)
}

func oldest(seconds float64) string {
	if seconds == 0 {
		return "-"
	}
	return ago(seconds)
}
