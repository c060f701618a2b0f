package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/google/uuid"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/conformance/world/mailbox"
	"github.com/pawlworks/pawl/conformance/world/proxy"
)

const (
	mailFrom = "demo@example.test"
	// serverSession is how long the demo's own server waits for a silent client: the settle time of the channel.
	serverSession = time.Second
)

// mailWorld is a mail server behind a proxy that can cut.
type mailWorld struct {
	run        string
	box        *mailbox.Mailbox // nil: somebody else's server
	wire       *proxy.Proxy
	imap       string
	user, pass string
	domain     string
	noProbe    bool
	cutting    atomic.Bool
	mu         sync.Mutex
	strike     func() // called in the next gap
}

func newOwnMail(o Options) (world, error) {
	box, err := mailbox.Start(mailbox.Options{SessionTimeout: serverSession})
	if err != nil {
		return nil, fmt.Errorf("start the mailbox: %w", err)
	}
	w := &mailWorld{
		run: uuid.NewString()[:8], box: box, imap: box.IMAPAddr(), user: mailbox.DefaultUser, pass: mailbox.DefaultPassword,
		domain: "example.test", noProbe: o.NoProbe,
	}
	if w.wire, err = proxy.Start("127.0.0.1:0", box.SMTPAddr(), w.judge); err != nil {
		_ = box.Close()
		return nil, err
	}
	return w, nil
}

func newForeignMail(ctx context.Context, o Options) (world, error) {
	w := &mailWorld{run: uuid.NewString()[:8], imap: o.IMAP, user: o.User, pass: o.Password, domain: o.To, noProbe: o.NoProbe}
	if _, err := w.count(ctx); err != nil {
		return nil, fmt.Errorf("--imap %s: %w", o.IMAP, err)
	}
	var err error
	if w.wire, err = proxy.Start("127.0.0.1:0", o.SMTP, w.judge); err != nil {
		return nil, fmt.Errorf("--smtp %s: %w", o.SMTP, err)
	}
	return w, nil
}

func (w *mailWorld) kind() string    { return "mail" }
func (w *mailWorld) adapter() string { return "smtp" }

func (w *mailWorld) config() map[string]any {
	host, port := hostPort(w.wire.Addr())
	c := map[string]any{
		"host": host, "port": port, "tls": "none", "from": mailFrom, "connect_timeout": "1s", "command_timeout": "2s",
		"reply_timeout": "2s", "server_session_timeout": serverSession.String(),
	}
	if !w.noProbe {
		host, port := hostPort(w.imap)
		c["imap"] = map[string]any{
			"host": host, "port": port, "tls": "none", "username": w.user, "password": w.pass, "allow_plaintext_password": true,
			// The demo's own mailbox is where its server stores before it answers. Of another one that is not known.
			"stored_before_reply": w.box != nil, "timeout": "3s",
		}
	}
	return c
}

func (w *mailWorld) claim(n int) (json.RawMessage, string, error) {
	to := fmt.Sprintf("reader%d@%s", n, w.domain)
	switch { // at another server all mail goes to the one account that is looked into
	case w.box == nil && strings.Contains(w.user, "@"):
		to = w.user
	case w.box == nil:
		to = w.user + "@" + w.domain
	}
	subject, text := fmt.Sprintf("Demo %s number %d", w.run, n), "Marker: "+marker(w.run, n)+"\n"
	payload, err := json.Marshal(map[string]any{"to": to, "subject": subject, "text": text})
	if err != nil {
		return nil, "", err
	}
	key, err := canonical.MailKey([]string{to}, subject, text)
	return payload, key, err
}

// judge watches the wire: it cuts while cutting is set, and strikes in the gap.
func (w *mailWorld) judge(l proxy.Line) proxy.Verdict {
	if w.cutting.Load() {
		return proxy.CutBefore
	}
	if !l.FromServer || l.Point != proxy.Dot {
		return proxy.Pass
	}
	w.mu.Lock()
	strike := w.strike
	w.strike = nil
	w.mu.Unlock()
	if strike == nil {
		return proxy.Pass
	}
	strike()
	return proxy.CutBefore
}

func (w *mailWorld) cut() bool {
	w.cutting.Store(true)
	time.AfterFunc(30*time.Millisecond, func() { w.cutting.Store(false) })
	return true
}

func (w *mailWorld) gap(strike func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.strike = strike
	return true
}

func (w *mailWorld) close() error {
	err := w.wire.Close()
	if w.box != nil {
		if boxErr := w.box.Close(); err == nil {
			err = boxErr
		}
	}
	return err
}

// count reads the subjects of the mailbox: the demo's own directly, another one over IMAP.
func (w *mailWorld) count(ctx context.Context) (map[int]int, error) {
	counts := map[int]int{}
	if w.box != nil {
		for _, d := range w.box.Deliveries() {
			w.countOne(counts, string(d.Raw))
		}
		return counts, nil
	}
	client, err := imapclient.DialInsecure(w.imap, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	defer stop()
	if err := client.Login(w.user, w.pass).Wait(); err != nil {
		return nil, fmt.Errorf("login as %s: %w", w.user, err)
	}
	selected, err := client.Select("INBOX", &imap.SelectOptions{ReadOnly: true}).Wait()
	if err != nil {
		return nil, err
	}
	if selected.NumMessages == 0 {
		return counts, nil
	}
	var all imap.SeqSet
	all.AddRange(1, selected.NumMessages)
	messages, err := client.Fetch(all, &imap.FetchOptions{Envelope: true}).Collect()
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if m.Envelope != nil {
			w.countOne(counts, "Subject: "+m.Envelope.Subject+"\r\n")
		}
	}
	return counts, nil
}

func (w *mailWorld) countOne(counts map[int]int, text string) {
	prefix := "Subject: Demo " + w.run + " number "
	_, after, ok := strings.Cut(text, prefix)
	if !ok {
		return
	}
	digits, _, _ := strings.Cut(after, "\r\n")
	if n, err := strconv.Atoi(digits); err == nil {
		counts[n]++
	}
}

func hostPort(address string) (string, int) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address, 0
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return host, 0
	}
	return host, n
}
