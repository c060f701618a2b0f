package command

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

const defaultWait = time.Minute

// sending are the flags of send.
type sending struct {
	run, channel, payload, key, lane, approval string
	noWait                                     bool
	timeout, expires                           time.Duration
}

func newSend() *cobra.Command {
	var from reach
	var out output
	var s sending
	c := &cobra.Command{
		Use:   "send",
		Short: "Claim an effect and wait for its outcome",
		Long: `Claim an effect into the ledger and wait for its outcome. A running engine sends it.

Claiming the same run and key again sends nothing again: it is deduplicated, and the outcome is that of the first claim.
The same key with another payload is a conflict. Without --key the key is made from the payload: for mail from recipient,
subject and text, for file from the whole value. Other kinds need a key; see: pawl key --help`,
		Example: `  pawl send --run 0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77 --channel mail/marketing \
    --payload '{"to":"ada@example.org","subject":"Hello","text":"Hello Ada"}'
  pawl send --run 0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77 --channel file/audit --payload event.json --no-wait`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error { return s.send(c, from, out) },
	}
	from.flags(c)
	out.flags(c)
	c.Flags().StringVar(&s.run, "run", "", "run that the effect belongs to, a UUID; required")
	c.Flags().StringVar(&s.channel, "channel", "", "configured channel; required")
	c.Flags().StringVar(&s.payload, "payload", "", "JSON, a file, or - for standard input; required")
	c.Flags().StringVar(&s.key, "key", "", "effect key; made from the payload for mail and file")
	c.Flags().StringVar(&s.lane, "lane", "", "ordering key: intents of one lane go one at a time")
	c.Flags().StringVar(&s.approval, "approval", "", "file with an approval (JSON), or - for standard input")
	c.Flags().DurationVar(&s.expires, "expires", 0, "never send it after this time from now")
	c.Flags().Bool("wait", true, "wait for the outcome")
	c.Flags().BoolVar(&s.noWait, "no-wait", false, "end once it is claimed")
	c.Flags().DurationVar(&s.timeout, "timeout", defaultWait, "wait at most this long; the intent goes on")
	return c
}

func (s sending) send(c *cobra.Command, from reach, out output) error {
	claim, err := s.claim(c)
	if err != nil {
		return err
	}
	if wait, _ := c.Flags().GetBool("wait"); !wait {
		s.noWait = true
	}
	return from.with(c, func(to session) error {
		if s.expires > 0 {
			now, err := to.clock(c.Context())
			if err != nil {
				return err
			}
			claim.ExpiresAt = now.Add(s.expires)
		}
		r, err := to.Claim(c.Context(), claim)
		if err != nil {
			return err
		}
		if s.noWait {
			return printClaim(c, out, r)
		}
		return s.wait(c, to, out, r)
	})
}

// claim checks the flags and makes the claim of them.
func (s sending) claim(c *cobra.Command) (pawlclient.Claim, error) {
	switch {
	case s.run == "":
		return pawlclient.Claim{}, usage("--run is missing: give the UUID of the unit of work that owns the effect")
	case s.channel == "":
		return pawlclient.Claim{}, usage("--channel is missing: name a configured channel")
	case c.Flags().Changed("wait") && c.Flags().Changed("no-wait"):
		return pawlclient.Claim{}, usage("--wait and --no-wait exclude each other; keep one")
	case s.timeout <= 0:
		return pawlclient.Claim{}, usage("--timeout: must be more than 0, is %s; to end at once use --no-wait", s.timeout)
	case s.expires < 0:
		return pawlclient.Claim{}, usage("--expires: must be more than 0, is %s", s.expires)
	case s.approval == "-" && s.payload == "-":
		return pawlclient.Claim{}, usage("--approval and --payload both read standard input; give a file for one")
	}
	payload, err := readValue(c, "payload", s.payload)
	if err != nil {
		return pawlclient.Claim{}, err
	}
	claim := pawlclient.Claim{RunID: s.run, EffectKey: s.key, Channel: s.channel, Payload: payload, Lane: s.lane}
	if s.approval != "" {
		if claim.Approval, err = readApproval(c, s.approval); err != nil {
			return claim, err
		}
	}
	if claim.EffectKey == "" && !c.Flags().Changed("key") {
		if claim.EffectKey, err = payloadKey(s.channel, payload); err != nil {
			return claim, err
		}
	}
	_, err = ledger.Prepare(ledger.Claim{ // before anything is opened
		RunID: claim.RunID, EffectKey: claim.EffectKey, Channel: claim.Channel, Payload: claim.Payload, Lane: claim.Lane,
		Approval: (*ledger.Approval)(claim.Approval),
	})
	return claim, err
}

// wait follows the intent to its end, a hold, or the end of the time.
func (s sending) wait(c *cobra.Command, to session, out output, r pawlclient.ClaimResult) error {
	i, err := to.Wait(c.Context(), r.Intent.Key, s.timeout)
	if err != nil {
		return err
	}
	r.Intent = i
	if err := printClaim(c, out, r); err != nil {
		return err
	}
	switch {
	case i.State == pawlclient.StateCommitted:
		return nil
	case i.Ended():
		return silently(ExitNo)
	}
	return &exitError{ExitNotYet, fmt.Errorf("no outcome within %s; the intent goes on%s; look again with: pawl intents show %s '%s'", s.timeout, noEngine(c, to), i.RunID, i.EffectKey)}
}

// noEngine says so if nothing can send what was claimed.
func noEngine(c *cobra.Command, s session) string {
	engines, err := s.Engines(c.Context())
	if err != nil || slices.ContainsFunc(engines, alive) {
		return ""
	}
	return ", but no engine runs on this ledger: start one with pawl engine"
}

// alive reports whether an engine beats.
func alive(e pawlclient.Engine) bool {
	return !e.Stopped && e.Age < core.DefaultHeartbeatTimeout.Seconds()
}

func printClaim(c *cobra.Command, out output, r pawlclient.ClaimResult) error {
	return out.print(c, r, func(w io.Writer) {
		row(w, "claim", r.Status)
		printOutcome(w, r.Intent)
	})
}
