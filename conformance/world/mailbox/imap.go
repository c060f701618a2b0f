package mailbox

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
)

// Inbox is the one mailbox that every user has.
const Inbox = "INBOX"

// inboxes shows the deliveries over IMAP.
type inboxes struct {
	server *imapmemserver.Server
	users  map[string]*imapmemserver.User // by recipient address, lower case
	first  *imapmemserver.User
}

func newInboxes(options Options) (inboxes, error) {
	b := inboxes{server: imapmemserver.New(), users: make(map[string]*imapmemserver.User)}
	for _, u := range options.Users {
		user := imapmemserver.NewUser(u.Name, u.Password)
		if err := user.Create(Inbox, nil); err != nil {
			return b, fmt.Errorf("create %s of %s: %w", Inbox, u.Name, err)
		}
		if !options.EmptyAtStart {
			if err := show(user, welcome(options, u.Name), options.Now()); err != nil {
				return b, fmt.Errorf("welcome %s: %w", u.Name, err)
			}
		}
		b.server.AddUser(user)
		if b.first == nil {
			b.first = user
		}
		for _, address := range u.Addresses {
			b.users[strings.ToLower(address)] = user
		}
	}
	return b, nil
}

// welcome is a message that was never sent by SMTP and is never counted: something that a probe can see.
func welcome(options Options, user string) []byte {
	return fmt.Appendf(nil, "From: postmaster@%[1]s\r\nTo: %[2]s@%[1]s\r\nSubject: Welcome\r\nDate: %[3]s\r\n"+
		"Message-ID: <welcome.%[2]s@%[1]s>\r\n\r\nThis mailbox counts what it is given.\r\n",
		options.domain(), user, options.Now().UTC().Format(time.RFC1123Z))
}

func (b inboxes) deliver(d Delivery) error {
	user := b.first
	if owner, ok := b.users[strings.ToLower(d.Recipient)]; ok {
		user = owner
	}
	return show(user, d.Raw, d.At)
}

func show(user *imapmemserver.User, raw []byte, at time.Time) error {
	_, err := user.Append(Inbox, literal{bytes.NewReader(raw)}, &imap.AppendOptions{Time: at})
	return err
}

func (b inboxes) newServer(tlsConfig *tls.Config, options Options) *imapserver.Server {
	return imapserver.New(&imapserver.Options{
		NewSession: func(*imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
			session := b.server.NewSession()
			if whole, ok := session.(imapserver.SessionIMAP4rev2); ok && options.AcceptToken != nil {
				return &bearerSession{whole, options}, nil, nil
			}
			return session, nil, nil
		},
		Caps:         imap.CapSet{imap.CapIMAP4rev1: {}, imap.CapIMAP4rev2: {}},
		Logger:       slog.NewLogLogger(options.Logger.Handler(), slog.LevelWarn),
		TLSConfig:    tlsConfig,
		InsecureAuth: true,
	})
}

type literal struct{ *bytes.Reader }

func (l literal) Size() int64 { return int64(l.Len()) }
