package explain

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

var update = flag.Bool("update", false, "write testdata/*.golden anew")

var t0 = time.Date(2026, 3, 4, 3, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return t0.Add(time.Duration(seconds * float64(time.Second))) }

// row is one row of a log as the ledger writes it.
func row(seconds float64, outcome string, attempt int, detail string) pawlclient.LogEntry {
	return pawlclient.LogEntry{At: at(seconds), Outcome: outcome, Attempt: attempt, Detail: json.RawMessage(detail)}
}

func intent(change func(i *pawlclient.Intent)) pawlclient.Intent {
	i := pawlclient.Intent{
		Key: pawlclient.Key{RunID: "0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77", EffectKey: "mail:confirm-7"}, Channel: "mail/shop", Kind: "mail",
		State: pawlclient.StateIntent, Outcome: "in progress", CreatedAt: at(0),
	}
	change(&i)
	return i
}

const evidence = `{"id":"<a7@example.org>"}`

func committedBy(how string) func(i *pawlclient.Intent) {
	return func(i *pawlclient.Intent) {
		i.State, i.Outcome, i.Established, i.Evidence, i.FirstSentAt = "committed", "committed", how, json.RawMessage(evidence), at(0.2)
		i.EndedAt, i.Attempts = at(90), 1
	}
}

var receipt = pawlclient.Receipt{ID: "6a1f…", Outcome: "committed", IssuedAt: at(90)}

var cases = map[string]struct {
	detail pawlclient.Detail
	around Around
}{
	"sent at once": {detail: pawlclient.Detail{
		Intent: intent(committedBy("send")), Receipts: []pawlclient.Receipt{receipt},
		Log: []pawlclient.LogEntry{row(0.1, "fenced", 0, `{"fence":"1.1 by a-1"}`), row(0.5, "sent", 1, `{"fence":"1.1 by a-1","reason":"250 queued"}`)},
	}},
	"crashed twice and recovered by a probe": {
		detail: pawlclient.Detail{
			Intent: intent(func(i *pawlclient.Intent) { committedBy("probe")(i); i.FirstSentAt = at(31.2) }),
			// Signed by a host whose clock is behind the ledger's.
			Receipts: []pawlclient.Receipt{{ID: "6a1f…", Outcome: "committed", IssuedAt: at(89.9)}},
			Log: []pawlclient.LogEntry{
				row(0.1, "fenced", 0, `{"fence":"1.1 by a-1"}`),
				row(30, "reopened", 0, `{"fence":"1.2 by b-2","proof":"no_stamp","reason":"the sender died before it sent anything"}`),
				row(31, "fenced", 0, `{"fence":"1.4 by b-2"}`),
				row(60, "absent_now", 1, `{"fence":"1.6 by ","reason":"not in the mailbox","probe_began":"2026-03-04T03:00:59Z"}`),
				row(90, "found", 1, `{"fence":"1.7 by c-3","reason":"in the mailbox"}`),
			},
		},
		around: Around{Engines: []pawlclient.Engine{{Instance: "a-1", LastSeen: at(0), Age: 900}, {Instance: "b-2", LastSeen: at(32), Age: 868}, {Instance: "c-3", LastSeen: at(899), Age: 1}}},
	},
	"proven absent and sent again": {detail: pawlclient.Detail{
		Intent: intent(func(i *pawlclient.Intent) { committedBy("send")(i); i.Attempts = 2 }),
		Log: []pawlclient.LogEntry{
			row(0.1, "fenced", 0, `{"fence":"1.1 by a-1"}`),
			row(0.9, "ambiguous", 1, `{"fence":"1.1 by a-1","reason":"connection reset by peer"}`),
			row(70, "reopened", 1, `{"fence":"1.3 by a-1","proof":"absent_for_good","reason":"the probe proved that it was not sent: not in the mailbox","probe_began":"2026-03-04T03:01:09Z"}`),
			row(70.1, "fenced", 1, `{"fence":"1.5 by a-1"}`),
			row(90, "sent", 2, `{"fence":"1.5 by a-1"}`),
		},
	}},
	"held": {detail: pawlclient.Detail{
		Intent: intent(func(i *pawlclient.Intent) {
			i.State, i.Outcome, i.HeldAt, i.HoldReason = "dispatched", "held as unknown, do not retry", at(5), "the channel cannot be asked what became of it"
			i.MayHaveTakenEffect, i.FenceNumber, i.FirstSentAt, i.Attempts, i.NextLookAt = true, 4, at(0.2), 1, at(3600)
		}),
		Receipts: []pawlclient.Receipt{{Owed: true, Reason: "the key is not here"}},
		Log: []pawlclient.LogEntry{
			row(0.1, "fenced", 0, `{"fence":"1.1 by a-1"}`), row(1, "ambiguous", 1, `{"fence":"1.1 by a-1","reason":"reply: the answer never came"}`),
			row(5, "held", 1, `{"fence":"1.4 by ","reason":"the channel cannot be asked what became of it"}`),
		},
	}, around: Around{Channel: &pawlclient.Channel{Name: "mail/shop", Flag: "on", Probe: "none"}}},
	"held on a channel that can be asked": {detail: pawlclient.Detail{
		Intent: intent(func(i *pawlclient.Intent) {
			i.State, i.Outcome, i.HeldAt, i.HoldReason = "dispatched", "held as unknown, do not retry", at(5), "asked twice, a settle time apart: unknown: the mailbox is empty"
			i.MayHaveTakenEffect, i.FenceNumber, i.FirstSentAt, i.Attempts, i.NextLookAt = true, 4, at(0.2), 1, at(3600)
		}),
	}, around: Around{Channel: &pawlclient.Channel{Name: "mail/shop", Flag: "on", Probe: "exact"}}},
	"quarantined before anything was sent": {detail: pawlclient.Detail{
		Intent: intent(func(i *pawlclient.Intent) {
			i.State, i.Outcome, i.HeldAt, i.HoldReason, i.FenceNumber = "dispatched", "held as unknown, do not retry", at(5), "quarantined: past the ceiling of starts; the program died each time", 9
		}),
		Log: []pawlclient.LogEntry{row(5, "held", 0, `{"fence":"1.9 by ","reason":"quarantined: past the ceiling of starts; the program died each time"}`)},
	}},
	"abandoned as unknown": {detail: pawlclient.Detail{
		Intent: intent(func(i *pawlclient.Intent) {
			i.State, i.Outcome, i.AbandonedAs, i.AbandonReason, i.EndedAt = "abandoned", "unknown, do not retry", "unknown", "asked twice, a settle time apart: unknown: ", at(9)
			i.FirstSentAt, i.Attempts, i.EffectKey = at(0.2), 1, "mail:o'brien $(x)"
		}),
		Log: []pawlclient.LogEntry{
			row(0.1, "fenced", 0, `{"fence":"1.1 by a-1"}`), row(7, "unknown", 1, `{"reason":"the mailbox did not answer","probe_began":"2026-03-04T03:00:06Z"}`),
			row(9, "abandoned", 1, `{"fence":"1.3 by a-1","as":"unknown","reason":"asked twice, a settle time apart: unknown: "}`),
		},
	}},
	"late evidence after the end": {detail: pawlclient.Detail{
		Intent: intent(func(i *pawlclient.Intent) {
			i.State, i.Outcome, i.AbandonedAs, i.LateEvidence = "abandoned", "abandoned, took effect later", "unknown", json.RawMessage(evidence)
		}),
		Log: []pawlclient.LogEntry{
			row(0.1, "fenced", 0, `{"fence":"1.1 by a-1"}`), row(9, "abandoned", 1, `{"fence":"1.3 by b-2","as":"unknown","reason":"nobody can tell"}`),
			row(20, "late", 1, `{"fence":"1.1 by a-1","reason":"sent 250","evidence":{"id":"<a7@example.org>"}}`),
		},
	}},
	"late evidence that settles it": {detail: pawlclient.Detail{
		Intent: intent(committedBy("late")),
		Log: []pawlclient.LogEntry{
			row(0.1, "fenced", 0, `{"fence":"1.1 by a-1"}`), row(20, "late", 1, `{"fence":"1.1 by a-1","reason":"sent ","evidence":{"id":"<a7@example.org>"}}`),
			row(21, "reconciled", 1, `{"fence":"1.1 by a-1","reason":"late evidence of a worker whose fence was gone","evidence":{"id":"<a7@example.org>"}}`),
		},
	}},
	"two effects": {detail: pawlclient.Detail{
		Intent: intent(func(i *pawlclient.Intent) {
			committedBy("send")(i)
			i.LateEvidence = json.RawMessage(`{"id":"<b8@example.org>"}`)
		}),
	}},
	"redriven": {detail: pawlclient.Detail{
		Intent: intent(func(i *pawlclient.Intent) {
			i.State, i.Outcome, i.AbandonedAs, i.AbandonReason, i.RedrivenAs = "abandoned", "abandoned: refused", "refused", "550 no such user", "mail:confirm-7#2"
		}),
		Log: []pawlclient.LogEntry{row(0.1, "fenced", 0, `{"fence":"1.1 by a-1"}`), row(1, "rejected", 1, `{"fence":"1.1 by a-1","as":"refused","reason":"550 no such user"}`)},
	}},
	"claimed again for another": {detail: pawlclient.Detail{
		Intent: intent(func(i *pawlclient.Intent) {
			i.EffectKey, i.RedriveOf = "mail:confirm-7#2", "mail:confirm-7"
			i.Approval = &pawlclient.Approval{By: "Ada", Reference: "ticket 9"}
		}),
		Log: []pawlclient.LogEntry{row(3, "deduped", 0, ``)},
	}, around: Around{Engines: []pawlclient.Engine{{Instance: "a-1", Stopped: true, Age: 1}}}},
	"cancelled before it was sent": {detail: pawlclient.Detail{
		Intent: intent(func(i *pawlclient.Intent) {
			i.State, i.Outcome, i.AbandonedAs, i.AbandonReason = "abandoned", "abandoned: never sent", "never_sent", "cancelled: Ada: not wanted"
		}),
		Log: []pawlclient.LogEntry{row(2, "abandoned", 0, `{"as":"never_sent","reason":"cancelled: Ada: not wanted"}`)},
	}},
	"cancelled in doubt": {detail: pawlclient.Detail{
		Intent: intent(func(i *pawlclient.Intent) {
			i.State, i.CancelReason, i.MayHaveTakenEffect, i.NextLookAt, i.Attempts, i.FirstSentAt = "dispatched", "Ada: not wanted", true, at(60), 1, at(0.2)
		}),
		Log: []pawlclient.LogEntry{row(0.1, "fenced", 0, `{"fence":"1.1 by a-1"}`)},
	}},
	"accepted": {detail: pawlclient.Detail{
		Intent: intent(func(i *pawlclient.Intent) {
			i.State, i.Outcome, i.AcceptedAt, i.NextLookAt, i.FirstSentAt, i.Attempts = "dispatched", "accepted, not final yet", at(1), at(60), at(0.2), 1
		}),
		Log: []pawlclient.LogEntry{
			row(0.1, "fenced", 0, `{"fence":"1.1 by a-1"}`), row(1, "accepted", 1, `{"fence":"1.2 by ","evidence":{"id":"0xabc"}}`),
			row(30, "accepted", 1, `{"reason":"2 of 12 blocks","probe_began":"2026-03-04T03:00:29Z"}`),
		},
	}},
	"waiting on a paused channel": {
		detail: pawlclient.Detail{Intent: intent(func(i *pawlclient.Intent) { i.LastError = "535 bad credentials"; i.Starts = 1 }), Log: []pawlclient.LogEntry{
			row(0.1, "fenced", 0, `{"fence":"1.1 by a-1"}`), row(0.4, "not_sent", 0, `{"fence":"1.1 by a-1","proof":"not_sent","reason":"535 bad credentials"}`),
		}},
		around: Around{Channel: &pawlclient.Channel{Name: "mail/shop", Flag: "on", Paused: true, PauseReason: "credentials refused"}},
	},
	"not due yet": {
		detail: pawlclient.Detail{Intent: intent(func(i *pawlclient.Intent) { i.DueAt = at(3600) })},
		around: Around{Now: at(10), Channel: &pawlclient.Channel{Flag: "on"}, Engines: []pawlclient.Engine{{Instance: "a-1", Age: 2}}},
	},
	"decided by a person": {detail: pawlclient.Detail{
		Intent: intent(func(i *pawlclient.Intent) {
			committedBy("person")(i)
			i.By, i.Evidence = "Ada Lovelace", json.RawMessage(`{}`)
		}),
		Log: []pawlclient.LogEntry{
			row(0.1, "fenced", 0, `{"fence":"1.1 by a-1"}`), row(5, "held", 1, `{"fence":"1.4 by ","reason":"cannot be asked"}`),
			row(90, "resolved", 1, `{"fence":"1.5 by person-1","by":"Ada Lovelace","as":"sent","reason":"I saw it"}`),
		},
	}},
	"pruned": {detail: pawlclient.Detail{
		Intent: intent(func(i *pawlclient.Intent) { committedBy("send")(i); i.PrunedAt = at(86400 * 90) }), Receipts: []pawlclient.Receipt{receipt},
	}},
	"a log of another version": {detail: pawlclient.Detail{
		Intent: intent(func(i *pawlclient.Intent) {}),
		Log:    []pawlclient.LogEntry{row(1, "brought_back", 0, `{"reason":"why not","fence":7}`), row(2, "fenced", 0, `not JSON`)},
	}},
}

func TestAnAccountReadsLikeWhatHappened(t *testing.T) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(Of(c.detail, c.around).Lines(), "\n") + "\n"
			golden := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestEveryAccountEndsWithWhatItMeansAndWhatToDo(t *testing.T) {
	for _, state := range []string{"intent", "dispatched", "committed", "abandoned", "", "new in a later version"} {
		for _, as := range []string{"", "never_sent", "refused", "failed_outside", "unknown", "another"} {
			a := Of(pawlclient.Detail{Intent: pawlclient.Intent{State: state, AbandonedAs: as}}, Around{})
			if a.Meaning == "" || a.Do == "" || len(a.Events) == 0 {
				t.Errorf("%s, %s: %+v", state, as, a)
			}
		}
	}
}

func TestOnlyWhatNeedsAPersonAsksForOne(t *testing.T) {
	for name, want := range map[string]bool{
		"held": true, "held on a channel that can be asked": true, "quarantined before anything was sent": true, "two effects": true, "late evidence after the end": true,
		"waiting on a paused channel": true, "claimed again for another": true, // no engine runs
		"sent at once": false, "accepted": false, "cancelled in doubt": false, "not due yet": false, "redriven": false,
	} {
		if c := cases[name]; Of(c.detail, c.around).Attention != want {
			t.Errorf("%s: attention is not %t", name, want)
		}
	}
}
