package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
)

// Result is what came of a demo. Its JSON is the last line of "pawl demo --json".
type Result struct {
	Claimed          int    `json:"claimed"`
	Committed        int    `json:"committed"`
	Delivered        int    `json:"delivered"` // counted by the outside world
	Duplicates       int    `json:"duplicates"`
	Lost             int    `json:"lost"` // claimed, not delivered, and neither held nor abandoned
	Held             int    `json:"held"`
	Abandoned        int    `json:"abandoned"`
	Kills            int    `json:"kills"`
	ReceiptsVerified int    `json:"receipts_verified"`
	Seed             uint64 `json:"seed"`
	Starts           int    `json:"engine_starts"`
	RecoverMedianMS  int64  `json:"recover_p50_ms"`
	RecoverMostMS    int64  `json:"recover_max_ms"`
	ElapsedMS        int64  `json:"elapsed_ms"`
	// HeldIntents lists every held intent with its reason.
	HeldIntents []HeldIntent `json:"held_intents,omitempty"`
	// Scraped are the service's own counters, with --serve.
	Scraped *Scraped `json:"scraped,omitempty"`
	// Directory is where the demo's files are, where they were kept.
	Directory string `json:"directory,omitempty"`
}

// HeldIntent is one that waits for a person.
type HeldIntent struct {
	EffectKey string `json:"effect_key"`
	Reason    string `json:"reason"`
	Delivered int    `json:"delivered"` // what the outside world counts
}

// Good reports whether the promise held: nothing twice, nothing lost, a verified receipt for each commit.
func (r Result) Good() bool {
	return r.Duplicates == 0 && r.Lost == 0 && r.Claimed > 0 && r.Committed+r.Held+r.Abandoned == r.Claimed &&
		r.ReceiptsVerified == r.Committed && (r.Scraped == nil || r.Scraped.agrees(r))
}

// result reads the ledger, asks the outside world for its count, and verifies the receipts.
func (d *demo) result(ctx context.Context) (Result, error) {
	r := Result{
		Claimed: int(d.claimed.Load()), Kills: int(d.kills.Load()), Seed: d.options.Seed, Starts: d.engine.starts,
		ElapsedMS: time.Since(d.began).Milliseconds(),
	}
	median, longest := d.tracker.quantiles()
	r.RecoverMedianMS, r.RecoverMostMS = median.Milliseconds(), longest.Milliseconds()
	counts, err := d.world.count(ctx)
	if err != nil {
		return r, fmt.Errorf("count the outside world: %w", err)
	}
	tally := tallyOf(counts, d.options.Count)
	r.Delivered, r.Duplicates = tally.delivered, tally.duplicates
	intents := make([]ledger.Intent, d.options.Count)
	for n, k := range d.keys {
		i, _, err := d.ledger.Intent(ctx, k)
		if err != nil {
			return r, fmt.Errorf("read the ledger: %w", err)
		}
		intents[n] = i
		switch {
		case i.State == ledger.StateCommitted:
			r.Committed++
		case i.State == ledger.StateAbandoned:
			r.Abandoned++
		case i.Held():
			r.Held++
			r.HeldIntents = append(r.HeldIntents, HeldIntent{EffectKey: i.EffectKey, Reason: i.HoldReason, Delivered: counts[n]})
		}
	}
	r.Lost = tally.lost(intents)
	r.ReceiptsVerified, err = d.verifyReceipts(ctx)
	return r, err
}

// verifyReceipts verifies with the public key alone, and counts the committed intents of this run that have a good receipt.
func (d *demo) verifyReceipts(ctx context.Context) (int, error) {
	ring, err := receipt.LoadKeyRing(filepath.Join(d.dir, "data", config.PublicKeyFile))
	if err != nil {
		return 0, err
	}
	good := map[ledger.Key]bool{}
	err = d.ledger.AllReceipts(ctx, func(s ledger.StoredReceipt) error {
		if s.Key.RunID != d.runID || s.Outcome != receipt.Committed || s.Owed {
			return nil
		}
		if v := receipt.Verify(s.Envelope, receipt.VerifyOptions{Keys: ring}); v.OK {
			good[s.Key] = true
		}
		return nil
	})
	return len(good), err
}

// Print writes the table, or one line of JSON.
func (r Result) Print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, value any, note string) { fmt.Fprintf(t, "%s\t%v\t %s\n", name, value, note) }
	row("claimed", r.Claimed, "")
	row("committed", r.Committed, "by the ledger")
	row("delivered", r.Delivered, "counted by the outside world")
	row("duplicates", r.Duplicates, "")
	row("lost", r.Lost, "")
	row("held", r.Held, "waiting for a person")
	row("kills", r.Kills, fmt.Sprintf("the engine was started %d times", r.Starts))
	row("receipts verified", r.ReceiptsVerified, "with the public key alone")
	row("time to recover", time.Duration(r.RecoverMedianMS)*time.Millisecond,
		fmt.Sprintf("median, from a kill to the settling of what was under way; longest %s", time.Duration(r.RecoverMostMS)*time.Millisecond))
	if c := r.Scraped; c != nil {
		row("scraped", c.Committed, fmt.Sprintf("committed by /metrics; abandoned %d, held %d, unfinished %d, receipts owed %d", c.Abandoned, c.Held, c.Unfinished, c.OwedReceipts))
	}
	row("seed", r.Seed, "")
	if err := t.Flush(); err != nil {
		return err
	}
	for _, h := range r.HeldIntents {
		if _, err := fmt.Fprintf(w, "held: %s: %s (delivered: %d)\n", h.EffectKey, h.Reason, h.Delivered); err != nil {
			return err
		}
	}
	verdict := "Each effect fired once."
	switch {
	case !r.Good():
		verdict = "THE PROMISE DID NOT HOLD: see the figures above."
	case r.Held > 0:
		verdict = "No effect fired twice, and none is lost: those held wait for a person."
	}
	_, err := fmt.Fprintln(w, verdict)
	if r.Directory != "" {
		fmt.Fprintln(w, "files:", r.Directory)
	}
	return err
}
