package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
)

func newInit() *cobra.Command {
	var dir string
	var force bool
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a commented pawl.yaml that works at once",
		Long: `Write a commented pawl.yaml that works at once: an embedded ledger, a channel that appends to a file, and a mail channel
whose mails go to a mailbox inside the process. Its comments show a real mail server, Postgres, an adapter of your own, and
how others reach the API.`,
		Example: `  pawl init
  pawl init --dir /etc/pawl`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error { return initialize(c, dir, force) },
	}
	c.Flags().StringVar(&dir, "dir", ".", "directory to write it into; made if it is missing")
	c.Flags().BoolVar(&force, "force", false, "replace the file that is there")
	return c
}

func initialize(c *cobra.Command, dir string, force bool) error {
	text, err := config.Starter(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usage("--dir: %v", err)
	}
	path := filepath.Join(dir, config.DefaultFile)
	flags := os.O_CREATE | os.O_WRONLY | os.O_EXCL
	if force {
		flags = os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o600) // it will hold passwords one day
	if errors.Is(err, fs.ErrExist) {
		return usage("%s exists already; --force replaces it", path)
	}
	if err != nil {
		return usage("--dir: %v", err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	at := ""
	if filepath.Clean(dir) != "." {
		at = " --config " + path
	}
	fmt.Fprintf(c.OutOrStdout(), `%s is written. Next, and the second one in another terminal:

  pawl serve%s
  pawl send%s --run %s --channel %s --payload '{"to": "reader@example.test", "subject": "Hello", "text": "This mail is sent once."}'
`, path, at, at, uuid.NewString(), demoChannel)
	return nil
}
