package server

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/conformance/world/mailbox"
)

const (
	mailboxDir = "mailbox" // in the data directory
	// mailboxStore is what the mailbox takes, flushed before it answers: what it shows after a restart.
	mailboxStore = "accepted.jsonl"
)

// startMailbox starts the mailbox for trying out. Every mail that it takes is also written to a file of its own, before the answer;
// what a kill left out is written at the next start.
func startMailbox(c config.Config, logger *slog.Logger) (*mailbox.Mailbox, error) {
	dir := filepath.Join(c.Data, mailboxDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the mailbox's directory: %w", err)
	}
	box, err := mailbox.Start(mailbox.Options{
		SMTPAddr: c.Mailbox.SMTP, IMAPAddr: c.Mailbox.IMAP, SessionTimeout: c.Mailbox.SessionTimeout, StorePath: filepath.Join(dir, mailboxStore),
		OnEvent: func(e mailbox.Event) {
			for _, d := range e.Accepted {
				if err := writeMail(dir, d); err != nil { // it counts all the same: the store has it
					logger.Warn("a mail in the mailbox has no file of its own", "mail", d.Seq, "error", err)
				}
			}
		},
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("mailbox.smtp, mailbox.imap: %w; does another pawl run here? If not, choose other ports, here and in the channel's config", err)
	}
	if err != nil {
		return nil, err
	}
	for _, d := range box.Deliveries() {
		if err := writeMail(dir, d); err != nil {
			return nil, errors.Join(fmt.Errorf("write the mails of the mailbox: %w", err), box.Close())
		}
	}
	return box, nil
}

// writeMail writes one mail into a file of its own, unless it is there already.
func writeMail(dir string, d mailbox.Delivery) error {
	path := filepath.Join(dir, fmt.Sprintf("%06d.eml", d.Seq))
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	half := path + ".half"
	if err := os.WriteFile(half, d.Raw, 0o600); err != nil {
		return err
	}
	return os.Rename(half, path)
}

// MailboxPattern names the files of the mails that the mailbox has taken.
func (s *Server) MailboxPattern() string {
	return filepath.Join(s.configuration().Data, mailboxDir, "*.eml")
}
