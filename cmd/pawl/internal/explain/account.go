package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// Around is what is known besides the intent itself. All of it may be left out.
type Around struct {
	Now     time.Time // on the ledger's clock; zero: not known
	Channel *pawlclient.Channel
	Engines []pawlclient.Engine
}

// Account is what happened, what it means, and what to do.
type Account struct {
	Title   string  `json:"title"`
	Events  []Event `json:"events"`
	Meaning string  `json:"meaning"`
	Do      string  `json:"do"`
	// Commands are what can be typed next, each with what it is for behind a #.
	Commands []string `json:"commands,omitempty"`
	// Attention says that a person is needed.
	Attention bool `json:"attention"`
}

// Event is one thing that happened.
type Event struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Of tells the account of an intent.
func Of(d pawlclient.Detail, around Around) Account {
	i := d.Intent
	a := Account{Title: fmt.Sprintf("%s of run %s, on %s: %s", i.EffectKey, i.RunID, i.Channel, i.Outcome)}
	w := walk{detail: d, around: around}
	w.begin()
	for _, e := range d.Log {
		w.entry(e)
	}
	w.missing()
	w.receipts()
	// Receipts have whole milliseconds: one that was issued with an entry of the log stands behind it.
	slices.SortStableFunc(w.events, func(a, b Event) int { return cmp.Compare(a.At.UnixMilli(), b.At.UnixMilli()) })
	a.Events = w.events
	j := judge(d, around)
	a.Meaning, a.Do, a.Commands, a.Attention = j.meaning, j.do, j.commands, j.attention
	return a
}

// Lines is the account as it is printed, without line ends. What an outside system said may hold anything: whoever prints it takes
// control characters out.
func (a Account) Lines() []string {
	lines := []string{a.Title, ""}
	for _, e := range a.Events {
		lines = append(lines, e.At.UTC().Format("2006-01-02 15:04:05.000")+"  "+e.Text)
	}
	lines = append(lines, "", "What it means: "+a.Meaning, "What to do: "+a.Do)
	for _, c := range a.Commands {
		lines = append(lines, "  "+c)
	}
	return lines
}
