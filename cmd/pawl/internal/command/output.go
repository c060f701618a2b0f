package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// output prints data: as a table, or as JSON with --json.
type output struct{ json bool }

func (o *output) flags(c *cobra.Command) {
	c.Flags().BoolVar(&o.json, "json", false, "print JSON with stable fields")
}

// print writes v as JSON, or calls text.
func (o *output) print(c *cobra.Command, v any, text func(w io.Writer)) error {
	if !o.json {
		w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
		text(w)
		return w.Flush()
	}
	e := json.NewEncoder(c.OutOrStdout())
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// row writes one line of a table. A cell never breaks the table: what an outside system said may hold anything.
func row(w io.Writer, cells ...string) {
	for i, cell := range cells {
		cells[i] = plain(cell)
	}
	fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

// plain keeps control characters from the terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// age is how long ago, in whole units.
func age(now, then time.Time) string {
	if then.IsZero() {
		return "-"
	}
	d := max(0, now.Sub(then))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func asError[T error](err error, target *T) bool { return errors.As(err, target) }
