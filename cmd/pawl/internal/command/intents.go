package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/ledger"
)

func newIntents() *cobra.Command {
	c := &cobra.Command{Use: "intents", Short: "Look at intents, or cancel one"}
	c.AddCommand(newIntentsList(), newIntentsShow(), newIntentsCancel())
	return c
}

// intentPage is what the lists print.
type intentPage struct {
	Intents []intentView `json:"intents"`
	Next    string       `json:"next,omitempty"` // for --after
}

func newIntentsList() *cobra.Command {
	var from source
	var out output
	var filter ledger.Filter
	var state, after string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List intents, newest claim first",
		Example: `  pawl intents list --channel mail/marketing --state dispatched`,
		Args:    none,
		RunE: func(c *cobra.Command, _ []string) error {
			states := []string{"intent", "dispatched", "committed", "abandoned"}
			if state != "" && !slices.Contains(states, state) {
				return usage("--state: %q is no state; %s", state, suggest(state, states))
			}
			if filter.Limit < 1 || filter.Limit > 1000 {
				return usage("--limit: must be between 1 and 1000, is %d", filter.Limit)
			}
			filter.State, filter.After = ledger.State(state), ledger.Cursor(after)
			return listIntents(c, from, out, filter, printIntents)
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().StringVar(&filter.RunID, "run", "", "only of this run")
	c.Flags().StringVar(&filter.Channel, "channel", "", "only of this channel")
	c.Flags().StringVar(&state, "state", "", "only in this state: intent, dispatched, committed, abandoned")
	c.Flags().BoolVar(&filter.Held, "held", false, "only held ones")
	c.Flags().IntVar(&filter.Limit, "limit", 100, "at most this many, up to 1000")
	c.Flags().StringVar(&after, "after", "", "go on after a page: what it printed as next")
	return c
}

func listIntents(c *cobra.Command, from source, out output, filter ledger.Filter, text func(w io.Writer, l ledger.Ledger, c *cobra.Command, found []ledger.Intent) error) error {
	run, err := runOf("--run", filter.RunID)
	if err != nil {
		return err
	}
	filter.RunID = run
	return from.with(c.Context(), func(l ledger.Ledger, _ config.Config) error {
		found, next, err := l.Intents(c.Context(), filter)
		if err != nil {
			return err
		}
		page := intentPage{Intents: []intentView{}, Next: string(next)}
		for _, i := range found {
			page.Intents = append(page.Intents, viewIntent(i))
		}
		var failed error
		err = out.print(c, page, func(w io.Writer) {
			if failed = text(w, l, c, found); next != "" {
				fmt.Fprintf(w, "more: --after %s\n", next)
			}
		})
		if failed != nil {
			return failed
		}
		return err
	})
}

func printIntents(w io.Writer, l ledger.Ledger, c *cobra.Command, found []ledger.Intent) error {
	now, err := l.Now(c.Context())
	if err != nil {
		return err
	}
	row(w, "RUN", "KEY", "CHANNEL", "STATE", "OUTCOME", "ATTEMPTS", "AGE")
	for _, i := range found {
		row(w, i.RunID, i.EffectKey, i.Channel, string(i.State), i.Outcome(), fmt.Sprint(i.Attempts), age(now, i.CreatedAt))
	}
	return nil
}

// intentDetail is what intents show prints.
type intentDetail struct {
	Intent   intentView      `json:"intent"`
	Payload  json.RawMessage `json:"payload,omitempty"` // with --payload
	Tokens   []tokenView     `json:"tokens"`
	Log      []logView       `json:"log"`
	Late     []lateView      `json:"late_evidence"`
	Receipts []receiptView   `json:"receipts"`
}

func newIntentsShow() *cobra.Command {
	var from source
	var out output
	var payload bool
	c := &cobra.Command{
		Use:   "show RUN KEY",
		Short: "Show one intent with its log, tokens and receipts",
		Args:  exactly("RUN", "KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			k, err := keyOf(args)
			if err != nil {
				return err
			}
			return from.with(c.Context(), func(l ledger.Ledger, _ config.Config) error {
				d, err := readDetail(c, l, k, payload)
				if err != nil {
					return err
				}
				return out.print(c, d, func(w io.Writer) { printDetail(w, d) })
			})
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().BoolVar(&payload, "payload", false, "show the payload, too; it may hold personal data")
	return c
}

func readDetail(c *cobra.Command, l ledger.Ledger, k ledger.Key, payload bool) (intentDetail, error) {
	i, tokens, err := l.Intent(c.Context(), k)
	if err != nil {
		return intentDetail{}, fmt.Errorf("intent %s: %w", k, err)
	}
	d := intentDetail{Intent: viewIntent(i), Tokens: viewTokens(tokens)}
	if payload {
		d.Payload = i.Payload
	}
	entries, err := l.Log(c.Context(), k)
	if err != nil {
		return d, err
	}
	d.Log = viewLog(entries)
	late, err := l.LateEvidence(c.Context(), k)
	if err != nil {
		return d, err
	}
	d.Late = viewLate(late)
	receipts, err := l.ReceiptsOf(c.Context(), k)
	d.Receipts = viewReceipts(receipts)
	return d, err
}

func newIntentsCancel() *cobra.Command {
	var from source
	var out output
	var by, reason string
	c := &cobra.Command{
		Use:   "cancel RUN KEY",
		Short: "Ask for the end of an intent",
		Long: `Ask for the end of an intent. What was never sent ends at once, as never sent. Where an attempt may have taken effect,
nothing more is sent, and it is found out first what became of it.`,
		Args: exactly("RUN", "KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			if by == "" {
				return usage("--by is missing: say who cancels")
			}
			k, err := keyOf(args)
			if err != nil {
				return err
			}
			return from.with(c.Context(), func(l ledger.Ledger, _ config.Config) error {
				r, err := l.Move(c.Context(), k, ledger.RequestCancel{By: by, Reason: reason})
				if err != nil {
					return fmt.Errorf("cancel %s: %w", k, err)
				}
				return out.print(c, viewIntent(r.Intent), func(w io.Writer) { printOutcome(w, r.Intent) })
			})
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().StringVar(&by, "by", "", "who cancels; required")
	c.Flags().StringVar(&reason, "reason", "", "why")
	return c
}

// keyOf reads RUN and KEY.
func keyOf(args []string) (ledger.Key, error) {
	run, err := runOf("RUN", args[0])
	return ledger.Key{RunID: run, EffectKey: args[1]}, err
}

// runOf reads a run's id as the ledger writes it. An empty one stays empty.
func runOf(name, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(id.String()) {
		return "", usage("%s: %q is not a UUID", name, cut(text))
	}
	return id.String(), nil
}
