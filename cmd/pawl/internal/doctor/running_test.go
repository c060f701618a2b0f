package doctor

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The service that runs has the addresses of its configuration: that is no fault, and a stranger's hold of the mailbox's is one.
func TestTheRunningServiceMayHaveItsAddresses(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			http.NotFound(w, r)
		}
	}))
	defer service.Close()
	box, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = box.Close() }()
	p := settle(t)
	p.options.Config.Mailbox.SMTP, p.options.Config.Mailbox.IMAP = box.Addr().String(), ""
	faults := func() (n int) {
		for _, f := range Look(t.Context(), p.options) {
			if f.About == aboutMailbox && f.Level == Fault && strings.Contains(f.What, "another program has") {
				n++
			}
		}
		return n
	}
	if n := faults(); n != 1 {
		t.Errorf("a stranger has the mailbox's address: %d faults", n)
	}
	p.options.Config.API.Listen = strings.TrimPrefix(service.URL, "http://")
	if n := faults(); n != 0 {
		t.Errorf("the running service has it: %d faults", n)
	}
}
