package smtp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlworks/pawl/core/channel"
)

// Probe looks for the mail in the configured mailbox, by its Message-ID.
func (m *mailer) Probe(ctx context.Context, a channel.Attempt) (channel.Finding, error) {
	box := m.config.IMAP
	if box == nil {
		return channel.UnknownFinding("no mailbox to look into: configure imap"), nil
	}
	if box.KeptFor > 0 && !a.FirstSentAt.IsZero() && time.Since(a.FirstSentAt) > box.KeptFor.D() {
		return channel.UnknownFinding(fmt.Sprintf("the first attempt is longer ago than mail is kept there (imap.kept_for is %v)", box.KeptFor)), nil
	}
	ctx, cancel := context.WithTimeout(ctx, box.Timeout.D())
	defer cancel()
	s, err := box.open(ctx)
	if err != nil {
		return channel.Finding{}, fmt.Errorf("imap: %w", err)
	}
	defer s.close()
	finding, err := box.look(s, m.config.names(a), recipient(a, m.config), a.FirstSentAt)
	if err != nil {
		return channel.Finding{}, fmt.Errorf("imap: %w", withCause(ctx, err))
	}
	return finding, nil
}

// recipient is who the mail is for, as far as it is known.
func recipient(a channel.Attempt, c *Config) string {
	if h, err := readHint(a.Token()); err == nil {
		return h.To
	}
	if l, err := c.read(a.Intent.Payload); err == nil {
		return l.to.addr()
	}
	return ""
}

func (i *IMAP) look(s *store, ids []string, to string, first time.Time) (channel.Finding, error) {
	for _, id := range ids {
		hits, err := s.search(id)
		if err != nil {
			return channel.Finding{}, err
		}
		if len(hits) == 0 {
			continue
		}
		finding := channel.SentFinding(channel.MatchExact, i.evidence(s, id, hits))
		if !addressedTo(hits, to) {
			finding.Match = channel.MatchHeuristic
			finding.Reason = "the Message-ID is there, but the mail is addressed to " + bounded(strings.Join(hits[0].to, ", "))
		}
		return finding, nil
	}
	switch err := s.control(); {
	case errors.Is(err, errEmpty):
		return channel.AbsentNow(err.Error(), false), nil
	case err != nil:
		return channel.UnknownFinding("control: " + bounded(err.Error())), nil
	case !i.StoredBeforeReply:
		return channel.AbsentNow("not in the mailbox yet; mail may reach it later", true), nil
	}
	if whole, err := s.reachesBack(first); err != nil {
		return channel.Finding{}, err
	} else if !whole {
		return channel.UnknownFinding("the oldest message in the mailbox came after the first attempt: the mailbox may have been emptied or exchanged"), nil
	}
	return channel.AbsentForGood("not in the mailbox that the server stores into before it answers"), nil
}

// addressedTo compares recipients. A local part beyond ASCII comes back in too many spellings to be compared.
func addressedTo(hits []sighting, to string) bool {
	if to == "" || !isASCII(to) {
		return true
	}
	for _, hit := range hits {
		for _, address := range hit.to {
			if strings.EqualFold(address, to) {
				return true
			}
		}
	}
	return false
}

func (i *IMAP) evidence(s *store, id string, hits []sighting) channel.Evidence {
	detail, err := json.Marshal(struct {
		MessageID   string `json:"message_id"`
		Mailbox     string `json:"mailbox"`
		UIDValidity uint32 `json:"uid_validity"`
		UID         uint32 `json:"uid"`
		Copies      int    `json:"copies"`
	}{id, i.Mailbox, s.selected.UIDValidity, uint32(hits[0].uid), len(hits)})
	if err != nil { // cannot happen: strings and numbers
		detail = nil
	}
	return channel.Evidence{ID: id, Detail: detail}
}
