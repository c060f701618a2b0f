package command

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/cmd/pawl/internal/demo"
)

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs one command line and returns its exit code.
func Main(args []string, s Streams) int {
	root := New()
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(context.Background())
	for _, line := range errorLines(err) {
		fmt.Fprintln(s.Err, "pawl: "+line)
	}
	return ExitCode(err)
}

// New returns the whole command tree.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   "pawl",
		Short: "Make every approved outside effect fire once, survive any crash, and leave evidence",
		Long: `Pawl makes every approved outside effect (a mail, a message, a transaction) fire once, survive any crash, and
leave evidence. An effect is claimed into a ledger; an engine sends it; a receipt shows what became of it.`,
		Example: `  pawl serve
  pawl send --run 0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77 --channel file/audit --payload '{"order":7}'
  pawl status`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
		Args:              noCommand,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%v; see: %s --help", err, c.CommandPath())
	})
	root.AddGroup(&cobra.Group{ID: groupEffects, Title: "Effects:"}, &cobra.Group{ID: groupOperate, Title: "Operating:"},
		&cobra.Group{ID: groupTools, Title: "Tools that need no ledger:"})
	in := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	in(groupEffects, newDemo(), newSend(), newIntents(), newHolds(), newExplain(), newResolve(), newRedrive(), newRuns())
	in(groupOperate, newServe(), newInit(), newEngine(), newReconcile(), newStatus(), newDoctor(), newChannels(), newPause(), newResume(), newTokens(), newAudit(), newMigrate(), newEpoch(),
		newPrune(), newAdapter())
	in(groupTools, newCanonical(), newKey(), newReceipt(), newVersion())
	root.AddCommand(newExitCodesTopic())
	root.SetHelpCommandGroupID(groupTools)
	root.SetCompletionCommandGroupID(groupTools) // counts only before the command is made
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		strict(c)
	}
	return root
}

func newDemo() *cobra.Command {
	c := demo.Command()
	c.Args = none
	return c
}

const (
	groupEffects = "effects"
	groupOperate = "operate"
	groupTools   = "tools"
)

// strict makes a command that only holds others refuse what it does not know.
func strict(c *cobra.Command) {
	if c.HasParent() && c.Parent().Name() == "completion" {
		c.Args = none
	}
	if c.HasSubCommands() && c.RunE == nil {
		c.Args = noCommand
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	for _, sub := range c.Commands() {
		strict(sub)
	}
}

// noCommand refuses arguments of a command that only holds others: they are names that it does not know.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	known := []string{"help"}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	return usage("unknown command %q of %s; %s", args[0], c.CommandPath(), suggest(args[0], known))
}

// exactly asks for arguments by their names.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usage("%s wants %d arguments (%s), has %d; see: %s --help", c.CommandPath(), len(names), strings.Join(names, " "), len(args), c.CommandPath())
		}
		return nil
	}
}

// none refuses arguments.
func none(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no argument, has %q; see: %s --help", c.CommandPath(), args[0], c.CommandPath())
	}
	return nil
}

// atMostOne takes one optional argument.
func atMostOne(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage("%s takes one argument, has %d; see: %s --help", c.CommandPath(), len(args), c.CommandPath())
	}
	return nil
}
