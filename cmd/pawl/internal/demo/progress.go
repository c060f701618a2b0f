package demo

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/pawlworks/pawl/ledger"
)

// progress shows one line that is written over on a terminal, and a line every two seconds elsewhere.
type progress struct {
	last     time.Time
	terminal bool
	shown    bool
}

func (p *progress) show(w io.Writer, d *demo, s ledger.Stats) {
	if !p.shown {
		f, ok := w.(*os.File)
		p.terminal = ok && term.IsTerminal(int(f.Fd()))
		p.shown = true
	}
	every := 2 * time.Second
	if p.terminal {
		every = 100 * time.Millisecond
	}
	if time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	line := fmt.Sprintf("%5.1fs  claimed %d  committed %d  under way %d  waiting %d  held %d  kills %d/%d",
		time.Since(d.began).Seconds(), d.claimed.Load(), s.Committed, s.Dispatched+s.Accepted, s.Waiting, s.Held, d.kills.Load(), d.options.Kills)
	if p.terminal {
		fmt.Fprintf(w, "\r\x1b[K%s", line)
	} else {
		fmt.Fprintln(w, line)
	}
}

func (p *progress) end(w io.Writer) {
	if p.terminal {
		fmt.Fprint(w, "\r\x1b[K")
	}
}
