package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/conformance/world"
	"github.com/pawlworks/pawl/ledger"
)

var quiet = slog.New(slog.DiscardHandler)

// pollable is a web server whose requests wait until they are let go.
func pollable(t *testing.T) (w *web, arrived, letGo chan struct{}, failed chan error) {
	t.Helper()
	w, err := listen(t.Context(), "api.listen", "127.0.0.1:0", quiet)
	if err != nil {
		t.Fatal(err)
	}
	arrived, letGo, failed = make(chan struct{}, 8), make(chan struct{}), make(chan error, 1)
	w.server.Handler = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-letGo
	})
	w.serve(failed)
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	return w, arrived, letGo, failed
}

func ask(t *testing.T, w *web) (answered chan error) {
	t.Helper()
	answered = make(chan error, 1)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	go func() {
		r, err := client.Get("http://" + w.listener.Addr().String())
		if err == nil {
			err = r.Body.Close()
		}
		answered <- err
	}()
	return answered
}

func TestAStopFinishesRequestsAndTakesNewOnesForTheDrainTime(t *testing.T) {
	w, arrived, letGo, _ := pollable(t)
	w.drain = 200 * time.Millisecond
	first := ask(t, w)
	<-arrived
	stopped := make(chan error, 1)
	began := time.Now()
	go func() { stopped <- w.stop(context.Background()) }()
	second := ask(t, w) // in the drain time
	<-arrived
	close(letGo)
	if err := errors.Join(<-first, <-second, <-stopped); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < w.drain {
		t.Errorf("it stopped after %s, before the drain time was over", took)
	}
	if err := <-ask(t, w); err == nil {
		t.Error("it takes connections after the stop")
	}
}

func TestAStopCutsRequestsThatDoNotEnd(t *testing.T) {
	w, arrived, letGo, _ := pollable(t)
	answered := ask(t, w)
	<-arrived
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.stop(ctx); err == nil || !strings.Contains(err.Error(), "api.listen: requests were cut") {
		t.Errorf("err is %v", err)
	}
	if err := <-answered; err == nil {
		t.Error("the request was answered")
	}
	close(letGo)
}

func TestAnAddressInUseIsNamedWithItsKey(t *testing.T) {
	w, _, letGo, _ := pollable(t)
	defer close(letGo)
	_, err := listen(t.Context(), "api.listen", w.listener.Addr().String(), quiet)
	if err == nil || !strings.HasPrefix(err.Error(), "api.listen: "+w.listener.Addr().String()+" is in use") {
		t.Errorf("err is %v", err)
	}
}

func TestAnAddressThatIsLostEndsTheServer(t *testing.T) {
	w, _, letGo, failed := pollable(t)
	defer close(letGo)
	if err := w.listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, net.ErrClosed) {
		t.Errorf("err is %v", err)
	}
}

func TestOthersAreServedOnlyWithATokenAndWithoutListeners(t *testing.T) {
	c := configured(t, oneChannel)
	if err := Migrate(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLedger(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	check := func(api config.API) string {
		c.API = api
		err := checkExposure(t.Context(), c, l)
		if err == nil {
			return ""
		}
		var faults *config.Error
		if !errors.As(err, &faults) {
			t.Fatalf("err is %v", err)
		}
		return faults.Faults[0].Key + ": " + faults.Faults[0].Problem
	}
	tlsOn := config.TLS{Cert: "c", Key: "k"}
	put := func(name string, expires time.Time) ledger.APIToken {
		token := ledger.APIToken{
			ID: uuid.NewString(), Name: name, Digest: strings.Repeat("0", 63) + name[:1], Scopes: []string{"claim"}, CreatedBy: "a test", CreatedAt: time.Now().Add(-2 * time.Hour), ExpiresAt: expires,
		}
		if err := l.PutAPIToken(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		return token
	}
	if got := check(config.API{Listen: "127.0.0.1:1"}); got != "" {
		t.Errorf("loopback without a token: %s", got)
	}
	if got := check(config.API{Listen: "0.0.0.0:1"}); !strings.HasPrefix(got, "api.tls: ") || !strings.Contains(got, "api.plain_text") {
		t.Errorf("without TLS: %s", got)
	}
	put("a", time.Now().Add(-time.Hour))
	revoked := put("b", time.Time{})
	if _, err := l.RevokeAPIToken(t.Context(), revoked.ID, "a test"); err != nil {
		t.Fatal(err)
	}
	for _, api := range []config.API{{Listen: "0.0.0.0:1", TLS: tlsOn}, {Listen: ":1", PlainText: true}} {
		if got := check(api); !strings.HasPrefix(got, "api.listen: ") || !strings.Contains(got, "pawl tokens create") {
			t.Errorf("without a token that is good: %s", got)
		}
	}
	put("c", time.Time{})
	for _, api := range []config.API{{Listen: "0.0.0.0:1", TLS: tlsOn}, {Listen: ":1", PlainText: true}} {
		if got := check(api); got != "" {
			t.Errorf("with a token: %s", got)
		}
	}
}

// writePair writes a certificate for a name.
func writePair(t *testing.T, files config.TLS, name string, at time.Time) {
	t.Helper()
	pair, authority, err := world.Certificate(name)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{files.Cert: authority, files.Key: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key})} {
		if err := errors.Join(os.WriteFile(path, text, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestACertificateIsReadAgainWhenItsFilesChange(t *testing.T) {
	dir := t.TempDir()
	files := config.TLS{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	if _, err := loadCertificate(files, quiet); err == nil || !strings.HasPrefix(err.Error(), "api.tls: ") {
		t.Errorf("files that are not there give %v", err)
	}
	writePair(t, files, "first.test", time.Unix(1000, 0))
	c, err := loadCertificate(files, quiet)
	if err != nil {
		t.Fatal(err)
	}
	w, err := listen(t.Context(), "api.listen", "127.0.0.1:0", quiet)
	if err != nil {
		t.Fatal(err)
	}
	w.secure, w.server.TLSConfig, w.server.Handler = true, c.config(), http.NotFoundHandler()
	w.serve(make(chan error, 1))
	defer w.close()
	name := func() string {
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // the name is what is looked at
		conn, err := dialer.DialContext(t.Context(), "tcp", w.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].DNSNames[0]
	}
	if got := name(); got != "first.test" {
		t.Errorf("it shows %s", got)
	}
	if changed, err := c.reload(); changed || err != nil {
		t.Errorf("nothing changed: %v, %v", changed, err)
	}
	writePair(t, files, "second.test", time.Unix(2000, 0))
	if err := os.WriteFile(files.Key, []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.reload(); err == nil || strings.Contains(err.Error(), "half") {
		t.Errorf("a pair that does not fit gives %v", err)
	}
	if got := name(); got != "first.test" {
		t.Errorf("after a pair that does not fit it shows %s", got)
	}
	writePair(t, files, "third.test", time.Unix(3000, 0))
	if changed, err := c.reload(); !changed || err != nil {
		t.Errorf("a good pair: %v, %v", changed, err)
	}
	if got := name(); got != "third.test" {
		t.Errorf("it shows %s", got)
	}
	writePair(t, files, "fourth.test", time.Unix(4000, 0))
	c.mu.Lock()
	c.looked = time.Now().Add(-certificateLook) // a while later, somebody connects
	c.mu.Unlock()
	if got := name(); got != "fourth.test" {
		t.Errorf("without a reload it shows %s", got)
	}
}

func TestAServerThatStopsIsNotReady(t *testing.T) {
	c := starter(t)
	c.API.Drain = time.Millisecond
	r := start(t, Options{Config: c, API: true})
	ready := func() (int, string) {
		answer := httptest.NewRecorder()
		r.readyz().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return answer.Code, answer.Body.String()
	}
	r.await("it is ready", func() bool { code, _ := ready(); return code == http.StatusOK })
	if err := r.Ledger.SetPaused(t.Context(), "file/audit", true, "so that it does not end"); err != nil {
		t.Fatal(err)
	}
	k, err := r.claim("file/audit", "waits")
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		i, err := r.Server.await(context.Background(), k)
		if i.EffectKey != "file:waits" {
			err = fmt.Errorf("it knows %+v, %w", i, err)
		}
		waited <- err
	}()
	r.beginStop()
	if err := <-waited; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a long poll ends with %v", err)
	}
	if code, text := ready(); code != http.StatusServiceUnavailable || !strings.Contains(text, "asked to stop") {
		t.Errorf("/readyz answers %d: %s", code, text)
	}
	if _, err := r.claim("file/audit", "late"); err != nil {
		t.Errorf("a claim in the drain time: %v", err)
	}
	r.stop()
}
