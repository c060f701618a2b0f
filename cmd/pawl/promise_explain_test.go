package main_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/conformance/world/mailbox"
	"github.com/pawlworks/pawl/conformance/world/proxy"
	"github.com/pawlworks/pawl/ledger"
)

// explain is what "pawl explain" says of an intent.
func (e *engine) explain(k ledger.Key) string {
	e.s.t.Helper()
	c := exec.CommandContext(e.s.ctx, e.s.program, "explain", "--config", e.config, k.RunID, k.EffectKey)
	out, err := c.CombinedOutput()
	if err != nil {
		e.s.t.Errorf("explain: %v", err)
	}
	return string(out)
}

// The first engine dies before the mail went out, the second after the server took it: what is explained is what happened.
func TestAnEffectThatCrashedTwiceAndWasFoundByAProbeIsExplainedAsItHappened(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, time.Minute)
			s := newMailScene(t, backend, o, time.Second)
			line := o.holdNext(proxy.Recipient, false)
			first := s.engine("e1", nil)
			k := s.claimMail("twice")
			line.await(t)
			s.await(k, "is stamped", ledger.Intent.Stamped)
			first.kill(true)
			line.let()

			hold := make(chan struct{})
			o.box.Inject(mailbox.Fault{Phase: mailbox.PhaseAccepted, Hold: hold})
			second := s.engine("e2", nil)
			o.awaitPhase(mailbox.PhaseAccepted)
			second.kill(true)
			close(hold)

			third := s.engine("e3", nil)
			if i := s.await(k, "is committed", committed); i.Attempts != 2 || i.Established != ledger.ByProbe {
				t.Fatalf("committed after %d attempts, by %q", i.Attempts, i.Established)
			}
			text := third.explain(k)
			t.Log(text)
			for _, next := range []string{
				"It was claimed", "began attempt 1", "had died", "proved that no attempt took effect", "began attempt 2", "had died", "found the effect there",
				"it is committed", "Receipt", "What it means", "What to do: Nothing",
			} {
				_, rest, found := strings.Cut(text, next)
				if !found {
					t.Fatalf("%q is missing, or not in its place, in what is left:\n%s", next, text)
				}
				text = rest
			}
			o.oneMail("twice")
		})
	}
}
