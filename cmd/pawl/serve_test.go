package main_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlworks/pawl/receipt"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

const hello = `{"to": "reader@example.test", "subject": "Hello", "text": "This mail is sent once."}`

// mails reads what arrived in the mailbox for trying out.
func (s *service) mails() (texts []string) {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "pawl-data", "mailbox", "*.eml"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

// verifyOffline verifies the receipts of an intent with the public key's file alone.
func (s *service) verifyOffline(k pawlclient.Key) {
	s.t.Helper()
	var page pawlclient.ReceiptPage
	s.eventually("there is a receipt", func() error {
		s.get(intentPath(k)+"/receipts", &page)
		if len(page.Receipts) == 0 {
			return os.ErrNotExist
		}
		return nil
	})
	keys, err := receipt.LoadKeyRing(filepath.Join(s.dir, "pawl-data", "receipt.pub.pem"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range page.Receipts {
		if v := receipt.Verify(r.Envelope, receipt.VerifyOptions{Keys: keys, Issuer: "pawl"}); !v.OK || v.Claims.Subject != k.EffectKey {
			s.t.Errorf("the receipt: %s", v)
		}
	}
}

func TestTheServiceSendsOnceWhateverHappensInBetween(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.initialize()
	s.start()
	first := s.claimed(http.StatusCreated, "mail/demo", hello)
	i := s.committedBy(first.Intent.Key)
	var evidence struct{ ID string }
	if err := json.Unmarshal(i.Evidence, &evidence); err != nil || evidence.ID == "" {
		t.Fatalf("the evidence: %s, %v", i.Evidence, err)
	}
	if got := s.mails(); len(got) != 1 || !strings.Contains(got[0], "Subject: Hello\r\n") || !strings.Contains(got[0], "<"+evidence.ID+">") {
		t.Errorf("the mails: %q, the evidence: %s", got, i.Evidence)
	}
	s.verifyOffline(first.Intent.Key)
	s.kill()
	s.awaitNobody()
	s.start()
	again := s.claimed(http.StatusOK, "mail/demo", hello)
	if again.Status != pawlclient.ClaimDeduplicated || again.Intent.State != pawlclient.StateCommitted {
		t.Errorf("claimed again it is %s, %s", again.Status, again.Intent.State)
	}
	second := s.claimed(http.StatusCreated, "mail/demo", strings.Replace(hello, "Hello", "Second", 1))
	s.committedBy(second.Intent.Key)
	line := s.claimed(http.StatusCreated, "file/audit", `{"order": 7}`)
	s.committedBy(line.Intent.Key)
	var channel pawlclient.Channel
	s.get("/v1/channels/mail%2Fdemo", &channel)
	if channel.Health == nil || !channel.Health.Ready {
		t.Errorf("the channel's health: %+v", channel.Health)
	}
	s.stop()
	if got := s.mails(); len(got) != 2 {
		t.Errorf("%d mails arrived: %q", len(got), got)
	}
	if text, err := os.ReadFile(filepath.Join(s.dir, "pawl-data", "audit.jsonl")); err != nil || strings.Count(string(text), `"order":7`) != 1 {
		t.Errorf("the audit file: %q, %v", text, err)
	}
}

func TestWithoutAFileTheServiceRunsWhatInitWrites(t *testing.T) {
	t.Parallel()
	s := newService(t)
	ports := s.freePorts(3) // its mail goes nowhere here: the channel names the usual ports
	s.env = []string{"PAWL_MAILBOX_SMTP=127.0.0.1:" + ports[0], "PAWL_MAILBOX_IMAP=127.0.0.1:" + ports[1], "PAWL_METRICS_LISTEN=127.0.0.1:" + ports[2]}
	s.start()
	line := s.claimed(http.StatusCreated, "file/audit", `{"order": 7}`)
	s.committedBy(line.Intent.Key)
	log, err := os.ReadFile(s.log)
	if err != nil || !strings.Contains(string(log), "running the configuration that `pawl init` writes, with its data in pawl-data") || !strings.Contains(string(log), "curl -s "+s.url) {
		t.Errorf("it does not say what it runs: %s, %v", log, err)
	}
	if status, body := s.ask(http.MethodGet, "/metrics", ""); status != http.StatusOK || !strings.Contains(string(body), "pawl_effects_total") {
		t.Errorf("/metrics answers %d: %.200s", status, body)
	}
	at := s.url
	s.url = "http://127.0.0.1:" + ports[2]
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		if status, body := s.ask(http.MethodGet, path, ""); status != http.StatusOK {
			t.Errorf("%s on its own address answers %d: %s", path, status, body)
		}
	}
	if status, _ := s.ask(http.MethodGet, "/v1/stats", ""); status != http.StatusNotFound {
		t.Errorf("the API is on the address of the metrics: %d", status)
	}
	s.url = at
	s.stop()
}

func TestAStopEndsLongPollsWithWhatIsKnown(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.initialize()
	s.start()
	if status, body := s.ask(http.MethodPost, "/v1/channels/file%2Faudit/pause", `{"by": "a test", "reason": "so that it does not end"}`); status != http.StatusOK {
		t.Fatalf("pause answers %d: %s", status, body)
	}
	waits := s.claimed(http.StatusCreated, "file/audit", `{"order": 7}`)
	type answer struct {
		status int
		body   []byte
	}
	answered := make(chan answer, 1)
	go func() {
		status, body := s.ask(http.MethodGet, intentPath(waits.Intent.Key)+"/wait?timeout=60s", "")
		answered <- answer{status, body}
	}()
	// That it waits shows in nothing but in what is not there: an answer.
	time.Sleep(500 * time.Millisecond)
	began := time.Now()
	s.signal(syscall.SIGTERM)
	got := <-answered
	var i pawlclient.Intent
	if err := json.Unmarshal(got.body, &i); err != nil || got.status != http.StatusOK || i.State != pawlclient.StateIntent || i.Starts != 0 {
		t.Errorf("the long poll answers %d: %s", got.status, got.body)
	}
	s.awaitStopped()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the stop took %s", took)
	}
}

func TestASecondServiceOnTheSameAddressesSaysSo(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.initialize()
	s.start()
	c := s.command("serve")
	c.Env = append(c.Env, "PAWL_API_LISTEN="+strings.TrimPrefix(s.url, "http://"))
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "pawl: api.listen: ") || !strings.Contains(string(out), "is in use") {
		t.Errorf("it says %s (%v)", out, err)
	}
	s.stop()
}
