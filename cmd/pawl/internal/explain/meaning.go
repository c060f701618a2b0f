package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// judgement is what an account ends with.
type judgement struct {
	meaning   string
	do        string
	commands  []string // each with what it is for behind a #
	attention bool
}

func judge(d pawlclient.Detail, around Around) judgement {
	i := d.Intent
	var j judgement
	switch {
	case i.State == pawlclient.StateCommitted:
		j = committed(i)
	case i.State == pawlclient.StateAbandoned:
		j = abandoned(i)
	case !i.HeldAt.IsZero():
		j = held(i, around)
	case !i.AcceptedAt.IsZero():
		j.meaning = "The outside system has it, and it is not final there yet. It is looked at again" + next(i) + "."
		j.do = "Nothing: it becomes committed, or is left for a person, by itself."
	case i.State == pawlclient.StateDispatched:
		j = underWay(i, around)
	default:
		j = waiting(i, around)
	}
	for _, r := range d.Receipts {
		if r.Owed {
			j.meaning += " A receipt is owed" + because(r.Reason) + "; a running engine issues it."
		}
	}
	return j
}

func committed(i pawlclient.Intent) judgement {
	how := map[string]string{
		"send":   "It took effect: the outside system said so when it was sent.",
		"probe":  "It took effect: the outside system was asked, and has it. It was not sent again after that.",
		"person": fmt.Sprintf("It took effect, by the word of %s.", somebody(i.By)),
		"late":   "It took effect: an engine whose fence was gone had been told so, and its word came late.",
	}[i.Established]
	if how == "" {
		how = "It took effect."
	}
	if len(i.LateEvidence) > 0 {
		return judgement{
			meaning:   how + " Evidence of another effect arrived as well: it seems to have taken place twice.",
			do:        "Look at the outside system for both: " + idPlain(i.Evidence) + " and " + idPlain(i.LateEvidence) + ". Undo one there if it must not stay.",
			attention: true,
		}
	}
	return judgement{meaning: how, do: "Nothing. Claiming it again sends nothing."}
}

func abandoned(i pawlclient.Intent) judgement {
	j := judgement{do: "If it is still wanted, claim it again.", commands: []string{"pawl redrive " + args(i) + " --by WHO --reason WHY"}}
	why := because(i.AbandonReason)
	switch {
	case len(i.LateEvidence) > 0:
		return judgement{
			meaning: "It had been given up" + why + ", and took effect after all: evidence came later.",
			do:      "Do not send it again. Tell whoever acted on its being given up.", attention: true,
		}
	case i.AbandonedAs == "never_sent":
		j.meaning = "It was never sent, which is proven" + why + "."
	case i.AbandonedAs == "refused":
		j.meaning = "The outside system will never take it as it is" + why + "."
		j.do = "Mend what it complains of in a new claim; if the fault was outside and is mended there, claim it again."
	case i.AbandonedAs == "failed_outside":
		j.meaning = "It happened on the outside system and failed there for good" + why + ". Its evidence is kept."
	default:
		j.meaning = "Nobody knows whether it took effect" + why + "."
		j.do = "Look at the outside system. Do not claim it under another key: that could do it twice. Only where a second one does no harm:"
		j.commands[0] += ` --accept-duplicates "duplicates are acceptable"`
	}
	if i.RedrivenAs != "" {
		j.do, j.commands = "It was claimed again as "+i.RedrivenAs+".", []string{"pawl explain " + i.RunID + " " + Word(i.RedrivenAs)}
	}
	return j
}

func held(i pawlclient.Intent, around Around) judgement {
	resolve := fmt.Sprintf("pawl resolve %s --number %d --by WHO --reason WHY --as ", args(i), i.FenceNumber)
	if !i.MayHaveTakenEffect {
		return judgement{
			meaning:   "It waits for a person, and was certainly not sent so far" + because(i.HoldReason) + ".",
			do:        "Find out why it could not be sent, then decide.",
			commands:  []string{resolve + "retry    # let it go once more", resolve + "notsent  # give it up"},
			attention: true,
		}
	}
	later := "It is still looked at" + next(i) + ", and ends by itself if the effect is found."
	if c := around.Channel; c != nil && c.Probe == "none" {
		later = "It stays so until somebody decides: the channel cannot be asked."
	}
	return judgement{
		meaning: "It waits for a person: it may have taken effect, and nothing could settle that" + because(i.HoldReason) + ". " + later,
		do:      "Look at the outside system, then decide. A wrong retry sends it twice.",
		commands: []string{
			"pawl intents show " + args(i) + " --payload  # what to look for there",
			resolve + "sent     # it is there", resolve + "notsent  # it is not, and never will be: give it up",
			resolve + "retry    # it is not, and never will be: send it again", resolve + "unknown  # nobody can tell",
		},
		attention: true,
	}
}

func underWay(i pawlclient.Intent, around Around) judgement {
	var j judgement
	if i.CancelReason != "" {
		j.meaning = "Its end was asked for (" + i.CancelReason + "): nothing more is sent. "
	}
	if i.MayHaveTakenEffect {
		j.meaning += "It may have taken effect, and is being found out" + next(i) + "."
	} else {
		j.meaning += "It is under way."
	}
	if nobody(around) {
		return j.noEngine()
	}
	j.do = "Nothing: it settles by itself, or is left for a person."
	return j
}

func waiting(i pawlclient.Intent, around Around) judgement {
	j := judgement{meaning: "It waits to be sent."}
	if i.MayHaveTakenEffect {
		j.meaning = "It waits to be sent again; an earlier attempt may have taken effect."
	}
	if i.LastError != "" {
		j.meaning += " What went wrong last: " + ended(i.LastError)
	}
	c := around.Channel
	switch {
	case c != nil && c.Paused:
		j.meaning += " Its channel is paused" + because(c.PauseReason) + "."
		j.do, j.commands, j.attention = "When that is mended:", []string{"pawl resume " + Word(c.Name)}, true
	case c != nil && c.Flag != "on":
		j.meaning += " Its channel's flag is " + c.Flag + "."
		j.do, j.commands, j.attention = "To let it send:", []string{"pawl channels flag " + Word(c.Name) + " on"}, true
	case nobody(around):
		return j.noEngine()
	case !around.Now.IsZero() && i.DueAt.After(around.Now):
		j.meaning += " It is not due before " + clock(i.DueAt) + "."
		j.do = "Nothing."
	default:
		j.do, j.commands = "Nothing, if it goes soon. If it stays, look at its channel.", []string{"pawl status"}
	}
	return j
}

// nobody reports whether it is known that no engine runs.
func nobody(around Around) bool {
	return around.Engines != nil && !slices.ContainsFunc(around.Engines, Alive)
}

func (j judgement) noEngine() judgement {
	j.do, j.commands, j.attention = "No engine runs on this ledger: start one.", []string{"pawl serve"}, true
	return j
}

func next(i pawlclient.Intent) string {
	if i.NextLookAt.IsZero() {
		return ""
	}
	return ", next at " + clock(i.NextLookAt)
}

func idPlain(evidence []byte) string {
	return strings.TrimPrefix(idOf(evidence), ", as ")
}

func args(i pawlclient.Intent) string { return i.RunID + " " + Word(i.EffectKey) }

// Word makes one word of a shell of what may hold anything.
func Word(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@+=,", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
