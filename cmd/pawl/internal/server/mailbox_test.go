package server

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/ledger"
)

// starter is the configuration to begin with, on ports that are free now.
func starter(t *testing.T) config.Config {
	t.Helper()
	dir := t.TempDir()
	text, err := config.Starter(dir)
	if err != nil {
		t.Fatal(err)
	}
	var ports []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	changed := strings.NewReplacer("7241", ports[0], "7242", ports[1]).Replace(string(text))
	path := filepath.Join(dir, config.DefaultFile)
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadWith(path, []string{"PAWL_API_LISTEN=127.0.0.1:0", "PAWL_ENGINE_POLL_EVERY=20ms"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (r *running) mail(subject string) ledger.Intent {
	r.t.Helper()
	payload, err := json.Marshal(map[string]string{"to": "reader@example.test", "subject": subject, "text": "Once."})
	if err != nil {
		r.t.Fatal(err)
	}
	results, err := core.Claim(r.t.Context(), r.Ledger, ledger.Claim{RunID: uuid.NewString(), EffectKey: "mail:" + subject, Channel: "mail/demo", Payload: payload})
	if err != nil {
		r.t.Fatal(err)
	}
	i, err := r.Engine.Wait(r.t.Context(), results[0].Key)
	if err != nil || i.State != ledger.StateCommitted {
		r.t.Fatalf("%s is %s: %s (%v)", subject, i.Outcome(), i.LastError, err)
	}
	return i
}

func TestTheMailboxHasAFileForEachMailAndKnowsItAfterARestart(t *testing.T) {
	c := starter(t)
	first := start(t, Options{Config: c, API: true})
	first.mail("one")
	first.mail("two")
	files, err := filepath.Glob(first.MailboxPattern())
	if err != nil || len(files) != 2 {
		t.Fatalf("files: %v, %v", files, err)
	}
	first.stop()
	if err := os.Remove(files[1]); err != nil { // as if a kill had come between the mail and its file
		t.Fatal(err)
	}
	second := start(t, Options{Config: c, API: true})
	second.mail("three")
	for n, subject := range []string{"one", "two", "three"} {
		path := filepath.Join(c.Data, "mailbox", fmt.Sprintf("%06d.eml", n+1))
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "Subject: "+subject+"\r\n") {
			t.Errorf("%s: %q, %v", path, text, err)
		}
		if info, err := os.Stat(path); err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
	}
	if n := len(second.box.Deliveries()); n != 3 {
		t.Errorf("the mailbox shows %d mails", n)
	}
	// A second process on the same configuration says what is wrong, and which key it is.
	if _, err := Start(t.Context(), Options{Config: c, Logger: second.logger}); err == nil || !strings.Contains(err.Error(), "mailbox.smtp") {
		t.Errorf("a second mailbox: %v", err)
	}
	asks, err := Start(t.Context(), Options{Config: c, Logger: second.logger, Strict: true})
	if err != nil {
		t.Fatalf("a command that asks beside it: %v", err)
	}
	if err := asks.Close(); err != nil {
		t.Error(err)
	}
}
