package command

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlworks/pawl/cmd/pawl/internal/explain"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

const (
	// longWait is how old an effect that could be sent may get before somebody should look.
	longWait = 5 * time.Minute
	// lately is how long the silence of an engine is worth a line: later it was replaced, or its end is known.
	lately = time.Hour
)

// needs says what needs a person, the most urgent first, with what to type next. It is a pure function.
func needs(v statusView, held []pawlclient.Intent) []attention {
	all := []attention{}
	add := func(command, format string, args ...any) {
		all = append(all, attention{fmt.Sprintf(format, args...), command})
	}
	running := slices.ContainsFunc(v.Engines, alive)
	if open := v.Stats.Waiting + v.Stats.Dispatched + v.Stats.Accepted; !running && (open > 0 || len(v.Channels) > 0) {
		add("pawl serve", "no engine runs: nothing is sent, and nothing is found out (%d not ended)", open)
	}
	for _, e := range v.Engines {
		if !e.Stopped && !alive(e) && e.Age < lately.Seconds() {
			add("pawl doctor", "engine %s fell silent %s ago without stopping; what it had under way is found out by others", e.Instance, ago(e.Age))
		}
	}
	for _, c := range v.Channels {
		switch {
		case c.Paused:
			add("pawl resume "+explain.Word(c.Name), "%s is paused (%s); %d wait. When that is mended, resume it", c.Name, orNone(c.PauseReason), c.Waiting)
		case c.Health != nil && !c.Health.Ready:
			add("pawl doctor", "%s: its adapter is not ready (%s)", c.Name, orNone(c.Health.Reason))
		case running && c.Flag == "on" && c.OldestWaiting > longWait.Seconds():
			add("pawl intents list --state intent --channel "+explain.Word(c.Name), "%s: the oldest of %d has waited for %s", c.Name, c.Waiting, ago(c.OldestWaiting))
		}
	}
	for _, i := range held {
		add("pawl explain "+i.RunID+" "+explain.Word(i.EffectKey), "held on %s: %s", i.Channel, orNone(i.HoldReason))
	}
	if more := v.Stats.Held - len(held); more > 0 {
		add("pawl holds list", "%d more are held", more)
	}
	if v.Stats.OwedReceipts > 0 {
		add("pawl doctor", "%d receipts are owed: engines issue them where the receipt key is good", v.Stats.OwedReceipts)
	}
	return all
}

// ago is a duration in whole units, for a person.
func ago(seconds float64) string {
	now := time.Now()
	return age(now, now.Add(-time.Duration(seconds*float64(time.Second))))
}

func orNone(reason string) string {
	if reason == "" {
		return "no reason is given"
	}
	return reason
}
