package command

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/cmd/pawl/internal/doctor"
)

// diagnosis is what doctor prints with --json.
type diagnosis struct {
	Worst    doctor.Level     `json:"worst"`
	Findings []doctor.Finding `json:"findings"`
}

func newDoctor() *cobra.Command {
	var from source
	var out output
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look at everything a service needs, and say what to do about what is wrong",
		Long: `Look at everything a service needs: the configuration and the environment, the data directory, the receipt key, the ledger
with its durability, migrations, id and clock, every adapter with its times, and the addresses. Of each thing it says whether
it is well, what is wrong, and what to do. It changes nothing, and may run beside a running service.

The exit code is 1 if there is a fault. A warning is something that runs, and may surprise.`,
		Example: `  pawl doctor
  pawl doctor --config /etc/pawl/pawl.yaml --json`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			file := from.chosen()
			cfg, err := from.load()
			self, notFound := os.Executable()
			if notFound != nil {
				return fmt.Errorf("find the running program: %w", notFound)
			}
			found := doctor.Look(c.Context(), doctor.Options{File: file, Config: cfg, Failed: err, Environ: os.Environ(), Executable: self})
			d := diagnosis{doctor.Worst(found), found}
			if err := out.print(c, d, func(w io.Writer) { printDiagnosis(w, d) }); err != nil {
				return err
			}
			if d.Worst == doctor.Fault {
				return silently(ExitNo)
			}
			return nil
		},
	}
	from.flags(c)
	out.flags(c)
	return c
}

// chosen is the configuration file that load reads; empty for none.
func (s *source) chosen() string {
	if s.file != "" {
		return s.file
	}
	if file := os.Getenv(config.FileVariable); file != "" {
		return file
	}
	if _, err := os.Stat(config.DefaultFile); err == nil && s.url == "" {
		return config.DefaultFile
	}
	return ""
}

func printDiagnosis(w io.Writer, d diagnosis) {
	faults, warnings := 0, 0
	for _, f := range d.Findings {
		mark := string(f.Level)
		switch f.Level {
		case doctor.Fault:
			mark = "FAULT"
			faults++
		case doctor.Warning:
			warnings++
		}
		row(w, mark, f.About, f.What)
		if f.Do != "" {
			row(w, "", "", "→ "+f.Do)
		}
	}
	fmt.Fprintf(w, "\n%s, %s\n", many(faults, "fault"), many(warnings, "warning"))
}

func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
