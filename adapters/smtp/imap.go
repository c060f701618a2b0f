package smtp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// newest is how many of the newest messages are looked at for one that has a Message-ID.
const newest = 10

// store is a mailbox opened for looking.
type store struct {
	client   *imapclient.Client
	selected *imap.SelectData
	stop     func() bool
}

// open connects, logs in and examines the mailbox; it changes nothing there. The connection ends with ctx.
func (i *IMAP) open(ctx context.Context) (*store, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", i.address())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	s, err := i.login(ctx, conn)
	if err != nil {
		stop()
		_ = conn.Close()
		return nil, hiddenError{text: bounded(i.account.redact(withCause(ctx, err).Error())), err: err}
	}
	s.stop = stop
	return s, nil
}

func (i *IMAP) login(ctx context.Context, conn net.Conn) (*store, error) {
	var client *imapclient.Client
	switch i.TLS {
	case ImplicitTLS:
		encrypted := tls.Client(conn, i.tls)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS: %w", err)
		}
		client = imapclient.New(encrypted, nil)
	case StartTLS:
		var err error
		if client, err = imapclient.NewStartTLS(conn, &imapclient.Options{TLSConfig: i.tls}); err != nil {
			return nil, fmt.Errorf("STARTTLS: %w", err)
		}
	default:
		client = imapclient.New(conn, nil)
	}
	if err := i.authenticate(ctx, client); err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("log in as %s: %w", i.account.username, err)
	}
	selected, err := client.Select(i.Mailbox, &imap.SelectOptions{ReadOnly: true}).Wait()
	if err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("open the mailbox %s: %w", i.Mailbox, err)
	}
	return &store{client: client, selected: selected}, nil
}

func (i *IMAP) authenticate(ctx context.Context, client *imapclient.Client) error {
	if i.account.tokens != nil {
		return i.showToken(ctx, client)
	}
	return client.Login(i.account.username, i.account.password).Wait()
}

func (s *store) close() {
	s.client.Logout() // its answer is of no interest, and might not come
	_ = s.client.Close()
	s.stop()
}

// sighting is one message with the searched Message-ID.
type sighting struct {
	uid imap.UID
	to  []string
}

// search returns the messages whose Message-ID is id and nothing else: the server's search also finds ids that only
// contain it. The brackets are part of the question because some servers find nothing without them.
func (s *store) search(id string) ([]sighting, error) {
	answer, err := s.client.UIDSearch(&imap.SearchCriteria{
		Header: []imap.SearchCriteriaHeaderField{{Key: "Message-ID", Value: "<" + id + ">"}},
	}, nil).Wait()
	if err != nil {
		return nil, fmt.Errorf("search for the Message-ID: %w", err)
	}
	uids := answer.AllUIDs()
	if len(uids) == 0 {
		return nil, nil
	}
	messages, err := s.client.Fetch(imap.UIDSetNum(uids...), &imap.FetchOptions{UID: true, Envelope: true}).Collect()
	if err != nil {
		return nil, fmt.Errorf("fetch what the search found: %w", err)
	}
	var hits []sighting
	for _, m := range messages {
		if m.Envelope == nil || strings.Trim(m.Envelope.MessageID, "<>") != id {
			continue
		}
		hit := sighting{uid: m.UID}
		for _, a := range m.Envelope.To {
			hit.to = append(hit.to, a.Addr())
		}
		hits = append(hits, hit)
	}
	return hits, nil
}

var errEmpty = errors.New("the mailbox has no message with a Message-ID: there is nothing to show that the probe can see")

// control looks for a message that is known to be there, in the same way.
func (s *store) control() error {
	n := s.selected.NumMessages
	if n == 0 {
		return errEmpty
	}
	var set imap.SeqSet
	set.AddRange(n-min(n, newest)+1, n)
	messages, err := s.client.Fetch(set, &imap.FetchOptions{UID: true, Envelope: true}).Collect()
	if err != nil {
		return fmt.Errorf("fetch the newest messages: %w", err)
	}
	for k := len(messages) - 1; k >= 0; k-- {
		m := messages[k]
		if m.Envelope == nil || m.Envelope.MessageID == "" {
			continue
		}
		hits, err := s.search(strings.Trim(m.Envelope.MessageID, "<>"))
		if err != nil {
			return err
		}
		for _, hit := range hits {
			if hit.uid == m.UID {
				return nil
			}
		}
		return fmt.Errorf("the search does not find the message with UID %d, which is there", m.UID)
	}
	return errEmpty
}

// reachesBack reports whether the oldest message that is there had arrived by the time. If not, the mailbox may have been emptied or
// exchanged since: mail that came before may be gone.
func (s *store) reachesBack(t time.Time) (bool, error) {
	if t.IsZero() {
		return true, nil
	}
	messages, err := s.client.Fetch(imap.SeqSetNum(1), &imap.FetchOptions{UID: true, InternalDate: true}).Collect()
	if err != nil {
		return false, fmt.Errorf("fetch the oldest message: %w", err)
	}
	return len(messages) == 1 && !messages[0].InternalDate.IsZero() && !messages[0].InternalDate.After(t), nil
}
